// Command fakeup runs the fake vendor as a separate process, for crash and load tests. It
// prints its address, serves until it is killed, and serves its records at GET /books as
// JSON. It is not part of the product.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"

	"stoa/internal/testkit/fakeup"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	key := flag.String("key", fakeup.Key, "API key that is accepted")
	null := flag.Int("null", 0, "answer every request immediately with this many deltas, without records")
	brief := flag.Bool("brief", true, "do not record bodies and headers")
	flag.Parse()
	if err := run(*listen, fakeup.Options{Key: *key, Null: *null, Brief: *brief}); err != nil {
		fmt.Fprintln(os.Stderr, "fakeup:", err)
		os.Exit(1)
	}
}

func run(listen string, opts fakeup.Options) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	h := fakeup.NewHandler(opts)
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.HandleFunc("GET /books", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(struct {
			Peak   int
			Served []fakeup.Served
		}{h.Peak(), h.Served()})
	})
	return http.Serve(l, mux)
}
