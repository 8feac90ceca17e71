//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"stoa/e2e/bench/internal/null"
	"stoa/e2e/bench/internal/raw"
)

// A plane sends requests to the control plane and for agents on one connection.
type plane struct {
	*caller
	r *running
}

func newPlane(r *running) (*plane, error) {
	r = r.node()
	conn, err := raw.Dial(r.address, 64<<10)
	if err != nil {
		return nil, err
	}
	return &plane{caller: &caller{conn: conn}, r: r}, nil
}

// do sends a request with a JSON body, which may be nil. The response's body is valid until
// the next request.
func (p *plane) do(want int, method, path string, in any) ([]byte, error) {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return nil, err
		}
	}
	err := p.ask(raw.Request(method, p.r.address, "/api/v1"+path, p.r.key, body), want)
	if err != nil {
		err = fmt.Errorf("%s %s: %w", method, path, err)
	}
	return p.body, err
}

// id returns the member id of an object.
func id(body []byte) (string, error) {
	var v struct{ ID string }
	err := json.Unmarshal(body, &v)
	if err == nil && v.ID == "" {
		err = fmt.Errorf("no id in %.300s", body)
	}
	return v.ID, err
}

type object map[string]any

// newAgent creates an agent on a model.
func (p *plane) newAgent(model string) (string, error) {
	body, err := p.do(201, "POST", "/spaces", object{"name": "bench"})
	if err != nil {
		return "", err
	}
	space, err := id(body)
	if err != nil {
		return "", err
	}
	if body, err = p.do(201, "POST", "/api-agents", object{"spaceId": space, "name": "bench", "model": model, "instructions": "Answer in one sentence."}); err != nil {
		return "", err
	}
	return id(body)
}

// session starts a session and waits for its answer, which must contain the text.
func (p *plane) session(agent, message, text string) error {
	body, err := p.do(202, "POST", "/api-agents/"+agent+"/sessions", object{"message": message, "mode": "once"})
	if err != nil {
		return err
	}
	session, err := id(body)
	if err != nil {
		return err
	}
	for range 10 {
		if body, err = p.do(200, "GET", "/api-agents/"+agent+"/sessions/"+session+"?waitSeconds=30", nil); err != nil {
			return err
		}
		if bytes.Contains(body, []byte(`"status":"completed"`)) {
			if !bytes.Contains(body, []byte(text)) {
				return fmt.Errorf("the answer has no %q: %.600s", text, body)
			}
			return nil
		}
		if !bytes.Contains(body, []byte(`"status":"queued"`)) && !bytes.Contains(body, []byte(`"status":"running"`)) {
			return fmt.Errorf("the session did not complete: %.600s", body)
		}
	}
	return errors.New("the session is not completed after five minutes")
}

// sessions measures sessions of one step, from their start to their answer.
func (d *driver) sessions(r *running) (sample, error) {
	first, err := newPlane(r)
	if err != nil {
		return sample{}, err
	}
	defer first.conn.Close()
	agent, err := first.newAgent("bench-chat")
	if err != nil {
		return sample{}, err
	}
	return d.busy(r, func() (*caller, func() error, error) {
		p, err := newPlane(r)
		if err != nil {
			return nil, nil, err
		}
		return p.caller, func() error { return p.session(agent, "Hello, "+null.Text(40)+"?", "sandbox") }, nil
	})
}
