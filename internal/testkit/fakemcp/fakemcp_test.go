package fakemcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stoa/internal/agents/mcp"
	"stoa/internal/agents/remote"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// at returns the service's client for a fake.
func at(s *Server) mcp.Server {
	return mcp.Server{Endpoint: remote.Endpoint{Network: s.Network(), URL: s.URL}, Version: "test"}
}

func call(t *testing.T, s mcp.Server, id, tool, arguments string) (*remote.Result, *remote.Error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := s.Call(ctx, remote.Call{ID: id, Tool: tool, Arguments: json.RawMessage(arguments)})
	failed, ok := errors.AsType[*remote.Error](err)
	if err != nil && !ok {
		t.Fatal(err)
	}
	return result, failed
}

func TestAFakeAnswersInBothEras(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{"modern": {}, "legacy": {Legacy: true}, "streams": {Stream: true}, "legacy streams": {Legacy: true, Stream: true}} {
		t.Run(name, func(t *testing.T) {
			f := Start(t, o)
			s := at(f)
			got, err := s.Catalog(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range got.Tools {
				names = append(names, tool.Name+tool.Problem)
			}
			if !slices.Equal(names, []string{Read, Put, Act, Echo}) || got.Instructions != Instructions || (got.Protocol == Legacy) != o.Legacy {
				t.Errorf("%+v: %v", got, names)
			}
			s.Protocol = got.Protocol
			for i, tool := range []string{Read, Put, Put, Act, Act} {
				if result, failed := call(t, s, "cal_"+tool, tool, fmt.Sprintf(`{"key":"%s-key","text":"%d"}`, tool, i)); failed != nil || result.Text != "done "+tool {
					t.Errorf("%s: %+v, %v", tool, result, failed)
				}
			}
			if r, p, a := f.Effects("cal_read"), f.Effects("cal_put"), f.Effects("cal_act"); r != 0 || p != 1 || a != 2 || f.EffectsByKey()["act-key"] != 2 {
				t.Errorf("effects: %d, %d, %d", r, p, a)
			}
			if opened, open := f.Sessions(); open != 0 || (opened > 0) != o.Legacy {
				t.Errorf("%d sessions of %d are open", open, opened)
			}
			if calls := f.Calls(); len(calls) != 5 || calls[3].Header.Get("User-Agent") != "stoa" || calls[3].Connection != 1 {
				t.Errorf("%+v", calls)
			}
		})
	}
}

// TestAStoppedFakeRefusesCalls also makes it listen again at its address.
func TestAStoppedFakeRefusesCalls(t *testing.T) {
	t.Parallel()
	f := Start(t)
	s := at(f)
	f.Stop()
	if _, failed := call(t, s, "cal_1", Act, `{}`); failed == nil || failed.Class != remote.NotSent {
		t.Errorf("%v", failed)
	}
	if err := f.Begin(); err != nil || s.URL != f.URL {
		t.Fatal(err, s.URL, f.URL)
	}
	if _, failed := call(t, s, "cal_1", Act, `{}`); failed != nil || f.Effects("cal_1") != 1 {
		t.Errorf("%v", failed)
	}
}

func TestAFakeIsStrict(t *testing.T) {
	t.Parallel()
	f := Start(t)
	old := Start(t, Options{Legacy: true})
	if _, failed := call(t, at(f), "cal_1", "none", `{}`); failed == nil || failed.Class != remote.Refused || !strings.Contains(failed.Message, "unknown tool") {
		t.Errorf("%v", failed)
	}
	listing := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for name, c := range map[string]struct {
		url, body string
		header    map[string]string
		want      int
	}{
		"the other era":            {f.URL, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, nil, 400},
		"without a version":        {f.URL, listing, map[string]string{"Mcp-Method": "tools/list"}, 400},
		"another method":           {f.URL, listing, map[string]string{"Mcp-Protocol-Version": Modern, "Mcp-Method": "tools/call"}, 400},
		"as it should be":          {f.URL, listing, map[string]string{"Mcp-Protocol-Version": Modern, "Mcp-Method": "tools/list"}, 200},
		"one kind of reply":        {f.URL, listing, map[string]string{"Accept": "application/json"}, 406},
		"without a session":        {old.URL, listing, nil, 400},
		"with a forgotten session": {old.URL, listing, map[string]string{"Mcp-Session-Id": "x"}, 404},
		"no JSON":                  {f.URL, "{", nil, 400},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "application/json, text/event-stream")
		for k, v := range c.header {
			req.Header.Set(k, v)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", name, resp.StatusCode, c.want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
