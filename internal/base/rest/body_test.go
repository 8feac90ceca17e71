package rest

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A pipeWriter is the reply to a request that comes through a pipe.
type pipeWriter struct {
	http.ResponseWriter
	net.Conn
}

func (p pipeWriter) Write(b []byte) (int, error) { return p.Conn.Write(b) }

func TestABodyMustKeepComing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		piece  int           // bytes
		pause  time.Duration // between two pieces
		pieces int
		least  time.Duration // when it is cut; 0: it is taken
		most   time.Duration
	}{
		{"a steady one", 60 << 10, time.Second, 150, 0, 0},
		{"with pauses", 64 << 10, 29 * time.Second, 20, 0, 0},
		{"nothing for 30 s", 100, 31 * time.Second, 2, 30 * time.Second, 30 * time.Second},
		{"a byte a second", 1, time.Second, 1000, 30 * time.Second, 31 * time.Second},
		{"half a kilobyte a second", 512, time.Second, 1000, 55 * time.Second, 65 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				theirs, ours := net.Pipe()
				in := &bodyReader{ReadCloser: ours, rc: http.NewResponseController(pipeWriter{Conn: ours}), idle: bodyIdle, announced: -1}
				cut := make(chan struct{})
				go func() {
					defer theirs.Close()
					for range test.pieces {
						if _, err := theirs.Write(make([]byte, test.piece)); err != nil {
							return
						}
						select {
						case <-cut:
							return
						case <-time.After(test.pause):
						}
					}
				}()
				started := time.Now()
				n, err := io.Copy(io.Discard, in)
				took := time.Since(started)
				if test.most == 0 {
					if err != nil || n != int64(test.piece*test.pieces) || !in.ended {
						t.Errorf("%d bytes, %v after %v", n, err, took)
					}
				} else if !errors.Is(err, os.ErrDeadlineExceeded) || took < test.least || took > test.most {
					t.Errorf("%v after %v, %d bytes", err, took, n)
				}
				close(cut)
				ours.Close()
			})
		})
	}
}
