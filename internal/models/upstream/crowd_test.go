package upstream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/fakeup"
)

func TestManyCallersLeaveNothingInFlight(t *testing.T) { synctest.Test(t, manyCallers) }

func manyCallers(t *testing.T) {
	prompts := []string{
		"tokens: 20", "tokens: 200", "fail: 500", "flaky: 1\ntokens: 3", "fault: reset after 2\ntokens: 9", "cut: 1\ntokens: 9",
		"fault: hang", "fault: hang-body after 2\ntokens: 9", "fault: endless", "fault: drip\ntokens: 2", "fail: 529 after 2\ntokens: 9", "fail: 401",
	}
	var providers []stoa.Provider
	var fakes []*fakeup.Server
	for _, w := range wires {
		fake := fakeup.Start(t, fakeup.Options{Brief: true, Pipe: w.name + ".test"})
		pr := fake.Provider(w.name)
		pr.MaxInFlight = 20
		fakes, providers = append(fakes, fake), append(providers, pr)
	}
	cfg := quick(providers...)
	cfg.DefaultTimeout = stoa.Timeouts{FirstByte: 300 * time.Millisecond, Idle: 300 * time.Millisecond, Total: 2 * time.Second}
	cfg.MaxReplyBytes = 1 << 20
	p := openPipe(t, cfg, fakes...)
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			for n := range 12 {
				first := rng.IntN(len(providers))
				m := at(wires[first].model, providers[first], providers[(first+1)%len(providers)])
				prompt := fmt.Sprintf("mark: %d.%d\n%s", i, n, prompts[rng.IntN(len(prompts))])
				ctx, cancel := context.WithCancel(t.Context())
				leave := rng.IntN(6)
				if leave == 0 {
					time.AfterFunc(time.Duration(rng.IntN(50))*time.Millisecond, cancel)
				}
				ends, events := 0, 0
				for ev, err := range p.Stream(ctx, m, ask(prompt)) {
					if events++; leave == 1 && events == 3 {
						ends++
						break
					}
					if err != nil || ev.Kind == stoa.Finished {
						ends++
					}
				}
				if ends != 1 {
					t.Errorf("%q ended %d times", prompt, ends)
				}
				cancel()
			}
		})
	}
	all.Wait()
	s := p.Stats()
	if s.Active != 0 || s.Retrying != 0 {
		t.Errorf("left: %+v", s)
	}
	for _, pr := range s.Providers {
		if pr.InFlight != 0 {
			t.Errorf("%s has %d calls in flight", pr.Name, pr.InFlight)
		}
		for _, rt := range pr.Routes {
			if rt.InFlight != 0 {
				t.Errorf("%s %s has %d calls in flight", pr.Name, rt.Model, rt.InFlight)
			}
		}
	}
	for _, fake := range fakes {
		fake.WaitEnded(t, 1)
	}
}
