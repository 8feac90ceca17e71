//go:build unix

package main

import (
	"io"
	"net"
	"sync"
	"time"
)

// A relay is a TCP proxy through which the gateway reaches its database. While the database is
// away, open connections are reset and new ones are closed immediately.
type relay struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	away  bool
	conns map[net.Conn]bool
}

func newRelay(target string) (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: l, target: target, conns: map[net.Conn]bool{}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(c)
		}
	}()
	return r, nil
}

// keep reports whether a new connection may stay.
func (r *relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.away {
		r.conns[c] = true
	}
	return !r.away
}

func (r *relay) serve(c net.Conn) {
	defer c.Close()
	if !r.keep(c) {
		return
	}
	to, err := net.DialTimeout("tcp", r.target, 5*time.Second)
	if err != nil {
		return
	}
	defer to.Close()
	if !r.keep(to) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { io.Copy(to, c); to.Close() })
	io.Copy(c, to)
	c.Close()
	both.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
	delete(r.conns, to)
}

// setAway takes the database away, or brings it back.
func (r *relay) setAway(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
	for c := range r.conns {
		if away {
			if tcp, ok := c.(*net.TCPConn); ok {
				tcp.SetLinger(0) // a reset, as after a crash
			}
			c.Close()
		}
	}
}
