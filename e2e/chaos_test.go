package e2e

import (
	"context"
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"

	"stoa/internal/testkit/storetest"
)

var rounds = flag.Int("rounds", 4, "how often the test of several nodes disturbs one of them")

// A balancer passes connections on to nodes at random, like a load balancer: not to nodes
// that are paused or cannot be reached.
type balancer struct {
	mu     sync.Mutex
	nodes  []*server
	paused map[*server]bool
}

// newBalancer returns the balancer's address as a server, which has no process.
func newBalancer(t *testing.T, vendorURL string, nodes []*server) (*server, *balancer) {
	t.Helper()
	b := &balancer{nodes: nodes, paused: map[*server]bool{}}
	address := storetest.Listen(t, func(c net.Conn) { go b.serve(c) })
	front := newServer(t, vendorURL, "")
	front.postgres, front.url = nodes[0].postgres, "http://"+address
	close(front.up) // it never goes down
	return front, b
}

func (b *balancer) serve(c net.Conn) {
	defer c.Close()
	for _, i := range rand.Perm(len(b.nodes)) {
		n := b.nodes[i]
		b.mu.Lock()
		paused := b.paused[n]
		b.mu.Unlock()
		if paused {
			continue
		}
		far, err := net.Dial("tcp", n.url[len("http://"):])
		if err != nil {
			continue
		}
		defer far.Close()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			io.Copy(far, c)
			far.(*net.TCPConn).CloseWrite()
			c.(*net.TCPConn).CloseRead()
		}()
		io.Copy(c, far)
		c.Close()
		<-ended
		return
	}
}

func (b *balancer) pause(n *server, paused bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused[n] = paused
}

// TestBooksAreExactAcrossNodes runs three nodes on one PostgreSQL under a mixed load
// and disturbs them at random: one is killed, or stopped by SIGTERM, or paused for a
// while, or paused until the others have declared it dead. At the end all
// invariants of the books are checked from outside, and that every session stopped.
func TestBooksAreExactAcrossNodes(t *testing.T) {
	t.Parallel()
	address := aPostgres(t)
	var l *load
	v := newVendor(t, func() { l.happened() })
	var nodes []*server
	for range 3 {
		n := newServer(t, v.url, "")
		n.postgres = address
		nodes = append(nodes, n)
	}
	front, b := newBalancer(t, v.url, nodes)
	l = newLoad(front, v)
	for _, n := range nodes { // all at the same time: one creates the tables
		n.spawn()
	}
	for _, n := range nodes {
		n.ready(t)
	}
	l.accounts = []*account{
		front.newAccount(t, "pro", 500_000_000),
		front.newAccount(t, "pro", 500_000_000),
		front.newAccount(t, "free", 500_000_000),
		front.newAccount(t, "pro", 30_000), // so little that it depends on top-ups
	}
	front.newAgent(t, l.accounts[0])
	front.newAgent(t, l.accounts[2])

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.run(ctx, callers)
	}()
	done := map[string]int{}
	for i := range *rounds {
		l.happens(t, 1+rand.IntN(300))
		n := nodes[rand.IntN(len(nodes))]
		what := []string{"killed", "stopped", "paused", "paused until dead"}[(i+rand.IntN(2))%4]
		done[what]++
		switch what {
		case "killed":
			n.kill()
			n.start()
		case "stopped":
			if code := n.stop(t); code != 0 {
				t.Errorf("a node exits with %d after SIGTERM; its last lines: %q", code, n.current().tail(5))
			}
			n.start()
		case "paused":
			b.pause(n, true)
			n.current().signal(t, syscall.SIGSTOP)
			l.happens(t, 100+rand.IntN(300))
			n.current().signal(t, syscall.SIGCONT)
			b.pause(n, false)
		case "paused until dead":
			b.pause(n, true)
			declared := "a node was declared dead; what it had is free\" node=" + n.node(t)
			var dead []<-chan struct{}
			for _, other := range nodes {
				if other != n {
					dead = append(dead, other.current().logs(declared))
				}
			}
			n.current().signal(t, syscall.SIGSTOP)
			select {
			case <-dead[0]:
			case <-dead[1]:
			case <-t.Context().Done():
			}
			n.current().signal(t, syscall.SIGCONT)
			if code := n.current().exit(t); code == 0 {
				t.Error("a node that was declared dead exits with 0")
			}
			n.start()
			b.pause(n, false)
		}
	}
	stop()
	<-ended
	l.finish(t)
	t.Logf("%v; %s", done, l.tally())
	for _, n := range nodes {
		if code := n.stop(t); code != 0 {
			t.Errorf("a node exits with %d; its last lines: %q", code, n.current().tail(5))
		}
	}
	front.verify(t)
}

// node returns the process's node id.
func (h *server) node(t testing.TB) string {
	t.Helper()
	var list struct {
		Data []struct {
			ID   string
			Self bool
		}
	}
	h.get(t, ownerKey, "/nodes", &list)
	for _, n := range list.Data {
		if n.Self {
			return n.ID
		}
	}
	t.Fatalf("the node is not among those that live: %+v", list.Data)
	return ""
}

// ready waits until the spawned process accepts requests.
func (h *server) ready(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), safetyNet)
	defer cancel()
	h.await(ctx)
	if ctx.Err() != nil {
		t.Fatal(h.describe())
	}
}
