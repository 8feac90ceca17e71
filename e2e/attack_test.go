package e2e

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"
)

// An attacker attacks the server at addr, in the account of key.
type attacker struct{ addr, key string }

// attacks are the attacks on the server: each runs once, or keeps its connections until stop
// ends.
var attacks = []struct {
	name string
	run  func(a attacker, stop context.Context)
}{
	{"announced bodies", func(a attacker, stop context.Context) {
		a.holdConnections(stop, 420, "POST /api/v1/embed/exchange HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 16777216\r\n\r\n{")
	}},
	{"announced bodies with a key", func(a attacker, stop context.Context) {
		a.holdConnections(stop, 420, "POST /api/v1/responses HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+a.key+
			"\r\nContent-Type: application/json\r\nContent-Length: 16777216\r\n\r\n{")
	}},
	{"values without end", func(a attacker, stop context.Context) {
		a.sendBodies(stop, 12, "/embed/exchange", "", []byte(`{"embedUrlId":[`+strings.Repeat("{},", 5_000_000)+`{}]}`))
	}},
	{"values without end with a key", func(a attacker, stop context.Context) {
		a.sendBodies(stop, 12, "/responses", a.key, []byte(`{"model":"auto","input":[`+strings.Repeat("{},", 5_000_000)+`{}]}`))
	}},
	{"members without end", func(a attacker, stop context.Context) {
		var b bytes.Buffer
		b.WriteString("{")
		for i := range 1_000_000 {
			fmt.Fprintf(&b, `"k%d":1,`, i)
		}
		b.WriteString(`"z":1}`)
		a.sendBodies(stop, 6, "/responses", a.key, b.Bytes())
		a.sendBodies(stop, 6, "/spaces", a.key, b.Bytes())
	}},
	{"long user", func(a attacker, stop context.Context) {
		a.sendBodies(stop, 12, "/responses", a.key, []byte(`{"model":"alpha-haiku-4-5","input":"x","max_output_tokens":16,"user":"`+strings.Repeat("u", 15_500_000)+`"}`))
	}},
	{"long input", func(a attacker, stop context.Context) {
		a.sendBodies(stop, 12, "/responses", a.key, []byte(`{"model":"alpha-haiku-4-5","max_output_tokens":16,"input":"`+strings.Repeat("u", 15_500_000)+`"}`))
	}},
	{"turns without end", func(a attacker, stop context.Context) {
		a.sendBodies(stop, 4, "/responses", a.key, []byte(`{"model":"alpha-haiku-4-5","max_output_tokens":16,"input":[`+
			strings.Repeat(`{"role":"user","content":"a"},`, 400_000)+`{"role":"user","content":"a"}]}`))
	}},
	{"files that inflate", func(a attacker, stop context.Context) {
		var stream, pdf bytes.Buffer
		w := zlib.NewWriter(&stream)
		w.Write(bytes.Repeat([]byte("/Type /Pages "), 80_000))
		w.Close()
		pdf.WriteString("%PDF-1.7\n")
		for range 8 {
			fmt.Fprintf(&pdf, "1 0 obj <</Type /ObjStm>> stream\n%s\nendstream endobj\n", stream.Bytes())
		}
		file := `{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,` + base64.StdEncoding.EncodeToString(pdf.Bytes()) + `"}`
		a.sendBodies(stop, 200, "/responses", a.key, []byte(`{"model":"alpha-haiku-4-5","max_output_tokens":16,"input":[{"role":"user","content":[`+strings.Repeat(file+",", 4)+file+`]}]}`))
	}},
	{"calls that are left before their headers", func(a attacker, stop context.Context) {
		a.holdConnections(stop, 60, a.call(`{"model":"alpha-haiku-4-5","stream":true,"max_output_tokens":16,"input":"fault: hang\nmark: `+strings.Repeat("x", 100_000)+`"}`))
	}},
	{"chats of a script tag without a word", func(a attacker, stop context.Context) { a.openChats(stop, 150) }},
	{"readers that do not read", func(a attacker, stop context.Context) {
		a.holdConnections(stop, 400, strings.Repeat("GET /static/console.js HTTP/1.1\r\nHost: x\r\n\r\n", 8)) // 4 MB, more than the buffers of sockets hold
	}},
}

// attackerDialer dials from an address that no tenant has.
var attackerDialer = net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 10 * time.Second}

// dial returns nil if the connection is refused.
func (a attacker) dial() net.Conn {
	c, err := attackerDialer.Dial("tcp", a.addr)
	if err != nil {
		return nil
	}
	return c
}

// holdConnections opens n connections, sends data on each, and neither reads nor sends again
// until stop ends. Before that it closes half of them and opens the same number again six
// times, which makes a server touch memory that it has only reserved.
func (a attacker) holdConnections(stop context.Context, n int, request string) {
	var open []net.Conn
	fill := func() {
		for len(open) < n {
			c := a.dial()
			if c == nil {
				return
			}
			_ = c.(*net.TCPConn).SetReadBuffer(4096)
			_, _ = io.WriteString(c, request) // an already closed connection is the goal
			open = append(open, c)
		}
	}
	for range 6 {
		fill()
		for _, c := range open[:len(open)/2] {
			c.Close()
		}
		open = open[len(open)/2:]
	}
	fill()
	<-stop.Done()
	for _, c := range open {
		c.Close()
	}
}

// call returns a request of a model call.
func (a attacker) call(body string) string {
	return fmt.Sprintf("POST /api/v1/responses HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", a.key, len(body), body)
}

// openChats creates a script tag, opens n chats of it, and holds a stream of each until stop
// ends. It gives up at the first refusal that it does not expect.
func (a attacker) openChats(stop context.Context, n int) {
	client := &http.Client{Transport: &http.Transport{DialContext: attackerDialer.DialContext, DisableKeepAlives: true}}
	ask := func(method, path, key, origin, body string, into any) *http.Response {
		req, err := http.NewRequestWithContext(stop, method, "http://"+a.addr+"/api/v1"+path, strings.NewReader(body))
		if err != nil {
			return nil
		}
		if req.Header.Set("Content-Type", "application/json"); key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		if into == nil {
			req.Header.Set("Accept", "text/event-stream")
		}
		res, err := client.Do(req)
		if err != nil || into == nil {
			return res
		}
		defer res.Body.Close()
		_ = json.NewDecoder(res.Body).Decode(into) // what is missing fails later
		return res
	}
	const origin = "https://shop.example.com"
	var user struct{ DefaultSpaceID string }
	var made struct{ ID string }
	ask("GET", "/users/me", a.key, "", "", &user)
	ask("POST", "/api-agents", a.key, "", fmt.Sprintf(`{"spaceId":%q,"name":"a","instructions":"Be brief.","model":"alpha-haiku-4-5"}`, user.DefaultSpaceID), &made)
	ask("POST", "/api-agents/"+made.ID+"/embed-tags", a.key, "", `{"allowedOrigins":["`+origin+`"]}`, &made)
	var open []io.Closer
	for range n {
		var ticket struct{ URL string }
		ask("POST", "/embed/tags/"+made.ID+"/tickets", "", origin, "{}", &ticket)
		address, secret, _ := strings.Cut(ticket.URL, "#t=")
		var token struct{ Token, ChatSessionID string }
		ask("POST", "/embed/exchange", "", "", fmt.Sprintf(`{"embedUrlId":%q,"ticket":%q}`, path.Base(address), secret), &token)
		if res := ask("GET", "/embed/chat-sessions/"+token.ChatSessionID+"/events?follow=true", token.Token, "", "", nil); res != nil {
			open = append(open, res.Body)
		}
	}
	<-stop.Done()
	for _, c := range open {
		c.Close()
	}
}

// sendBodies sends the body n times concurrently and reads the replies.
func (a attacker) sendBodies(stop context.Context, n int, path, key string, body []byte) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			c := a.dial()
			if c == nil {
				return
			}
			defer c.Close()
			end := context.AfterFunc(stop, func() { c.Close() })
			defer end()
			head := fmt.Sprintf("POST /api/v1%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n", path, len(body))
			if key != "" {
				head += "Authorization: Bearer " + key + "\r\n"
			}
			if _, err := io.WriteString(c, head+"\r\n"); err == nil {
				_, _ = c.Write(body) // a refusal in the middle is fine
			}
			_, _ = io.Copy(io.Discard, c)
		})
	}
	all.Wait()
}

// attack is the program of an attacker: it repeats the named attack until its standard input
// ends. Without a name it burns every processor.
func attack(addr, key, name string) int {
	stop, end := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()
	run := func(_ attacker, stop context.Context) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for stop.Err() == nil {
				}
			})
		}
		all.Wait()
	}
	for _, a := range attacks {
		if a.name == name {
			run = a.run
		}
	}
	fmt.Println("begun")
	for stop.Err() == nil {
		run(attacker{addr, key}, stop)
	}
	return 0
}
