package fakemcp

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"testing"

	"stoa/internal/base/outbound"
)

// A Server is a fake that listens.
type Server struct {
	*Handler
	URL     string
	options Options
	address string
	http    *http.Server // nil if it does not listen
	done    chan struct{}
}

// Start starts a fake that runs until the test ends.
func Start(t testing.TB, options ...Options) *Server {
	t.Helper()
	var o Options
	if len(options) > 0 {
		o = options[0]
	}
	s := &Server{Handler: NewHandler(o), options: o, address: "127.0.0.1:0"}
	if err := s.Begin(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// connection is the key of the count of requests on a connection.
type connection struct{}

// Begin listens again at the previous address.
func (s *Server) Begin() error {
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		return err
	}
	s.address, s.URL = l.Addr().String(), "http://"+l.Addr().String()+"/"
	server := &http.Server{
		Handler: s.Handler, ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, connection{}, new(int))
		},
	}
	server.ConnState = func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.update(func() { s.conns[c] = true })
		case http.StateIdle:
			if s.options.CloseIdle {
				c.Close()
			}
		case http.StateClosed, http.StateHijacked:
			s.update(func() { delete(s.conns, c) })
		}
	}
	done := make(chan struct{})
	s.http, s.done = server, done
	go func() {
		defer close(done)
		_ = server.Serve(l) // until Stop
	}()
	return nil
}

// Stop ends all connections, and refuses others until [Server.Begin].
func (s *Server) Stop() {
	if s.http != nil {
		s.http.Close()
		<-s.done
		s.http = nil
	}
}

// Network returns a network that allows the fake, as the settings of an operator would.
func (s *Server) Network() *outbound.Network {
	allow, err := outbound.ParseDestinations([]string{"127.0.0.1"})
	if err != nil {
		panic(err) // it is an address
	}
	return outbound.New(outbound.Settings{Allow: allow})
}
