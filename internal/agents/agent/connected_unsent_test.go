package agent_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stoa/internal/base/outbound"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// An authority signs certificates of servers.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority"}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{certificate, key}
}

// sign returns a certificate for a host, which is valid until the given time.
func (a authority) sign(t *testing.T, host string, until time.Time) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: until,
	}, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// A name that no longer resolves, and an expired certificate, are detected before anything is
// sent: no call becomes unknown, regardless of its effects, and the next one works when the
// fault is over.
func TestFaultsBeforeARequestIsSent(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), callers(&results, func(message string) []stoa.ToolCall {
		f := strings.Fields(message)
		return []stoa.ToolCall{{ID: "1", Name: f[0] + "__" + f[1], Arguments: `{}`}}
	}))
	known, other := newAuthority(t), newAuthority(t)
	later := time.Now().Add(24 * time.Hour)
	var broken atomic.Bool
	wrong := map[string]*tls.Certificate{
		"expired.test": known.sign(t, "expired.test", time.Now().Add(-time.Hour)), "signer.test": other.sign(t, "signer.test", later), "host.test": known.sign(t, "another.test", later),
	}
	right := map[string]*tls.Certificate{"name.test": known.sign(t, "name.test", later)}
	for host := range wrong {
		right[host] = known.sign(t, host, later)
	}
	far := fakemcp.NewHandler(fakemcp.Options{})
	server := httptest.NewUnstartedServer(far)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if c := wrong[hello.ServerName]; c != nil && broken.Load() {
			return c, nil
		}
		return right[hello.ServerName], nil
	}}
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(known.certificate)
	allow, err := outbound.ParseDestinations([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	h.Tools.Network = outbound.New(outbound.Settings{Allow: allow, TLS: &tls.Config{RootCAs: roots}, Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
		if host == "name.test" && broken.Load() {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}})
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	agents := map[string]stoa.Agent{} // by connection: after three failures a connection is not called
	for host := range right {
		for tool := range effectsOf {
			name := strings.TrimSuffix(host, ".test") + tool
			agents[name] = h.Agent(using(connect(h, &fakemcp.Server{URL: "https://" + host + ":" + port + "/"}, name)))
		}
	}
	r := h.Service()
	sessiontest.Run(t, r)
	run := func(tools map[string]int, check func(host, tool string, row stoa.ExternalCall, attempts int)) {
		t.Helper()
		begun := map[string]stoa.Session{}
		for host := range right {
			for tool := range tools {
				name := strings.TrimSuffix(host, ".test") + tool
				begun[host+" "+tool] = h.Begin(r, agents[name], name+" "+tool)
			}
		}
		for name, s := range begun {
			host, tool, _ := strings.Cut(name, " ")
			got := h.Until(r, s, stoa.SessionCompleted)
			rows := callsOf(h, r, s)
			if len(rows) != 1 {
				t.Fatalf("%s: %+v\n%s", name, rows, h.Log(r, s))
			}
			check(host, tool, rows[0], tools[tool])
			h.CheckBooks(r, got)
		}
	}
	broken.Store(true)
	run(map[string]int{fakemcp.Read: 3, fakemcp.Put: 3, fakemcp.Act: 2}, func(host, tool string, row stoa.ExternalCall, attempts int) {
		want := "A valid TLS connection to the server is not possible. The call was not made."
		if host == "name.test" {
			want = "The server is not reachable. The call was not made."
		}
		if row.Outcome != stoa.OutcomeError || row.ErrorCode != stoa.CodeToolServer || row.Attempts != attempts || row.Result != want {
			t.Errorf("%s, %s: %s %s after %d attempts: %q", host, tool, row.Outcome, row.ErrorCode, row.Attempts, row.Result)
		}
	})
	if n := len(far.Calls()); n != 0 {
		t.Errorf("%d requests came in", n)
	}
	broken.Store(false)
	run(map[string]int{fakemcp.Act: 1}, func(host, tool string, row stoa.ExternalCall, attempts int) {
		if row.Outcome != stoa.OutcomeOK || row.Attempts != attempts || far.Effects(row.ID) != 1 {
			t.Errorf("%s, %s, when it is mended: %s", host, tool, fmt.Sprintf("%+v", row))
		}
	})
	var now store.Connection
	h.Write(func(ctx context.Context, tx *store.Tx) (err error) {
		now, err = tx.Setup().Connection(ctx, h.Account.ID, agents["name"+fakemcp.Act].Tools[0].ConnectionID)
		return err
	})
	if now.ErrorCode != "" {
		t.Errorf("the connection says %q", now.ErrorCode)
	}
}
