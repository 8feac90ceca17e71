//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A figure is a number of calls and what they cost, in micro-units.
type figure struct {
	Calls int64 `json:"calls"`
	Micro int64 `json:"micro"`
}

func (f *figure) add(calls, micro int64) { f.Calls, f.Micro = f.Calls+calls, f.Micro+micro }

// figures are the four ways in which books can be wrong.
type figures struct {
	Overrun figure `json:"overrun"` // billed beyond the cap
	Lost    figure `json:"lost"`    // delivered complete and never billed
	Doubled figure `json:"doubled"` // billed more than once, or more than they cost
	Free    figure `json:"free"`    // delivered complete and billed less than they cost, as past a cap
}

// all returns the figures by name.
func (f *figures) all() map[string]*figure {
	return map[string]*figure{"overrun": &f.Overrun, "lost": &f.Lost, "doubled": &f.Doubled, "free": &f.Free}
}

// names are the figures in the order of the report.
var names = []string{"overrun", "lost", "doubled", "free"}

// An entry is a billed call.
type entry struct {
	mark, id string
	micro    int64
}

// books are the gateway's books of one key.
type books struct {
	spent   int64
	entries []entry
}

// read reads the books of a customer.
func (g *gateway) read(ctx context.Context, c *customer) (b books, err error) {
	answer, err := g.do(ctx, g.Books.Spent.step, c.vars)
	if err != nil {
		return b, err
	}
	value, err := pointer(answer, g.Books.Spent.Value)
	if err != nil {
		return b, err
	}
	if b.spent, err = amount(value, g.Books.Spent.MicroPerUnit); err != nil {
		return b, err
	}
	l := g.Books.Calls
	request := l.step
	const maxPages = 5000
	for page := range maxPages {
		c.vars["page"] = fmt.Sprint(page)
		answer, err := g.do(ctx, request, c.vars)
		if err != nil {
			return b, err
		}
		value, err := pointer(answer, l.List)
		if err != nil {
			return b, err
		}
		list, _ := value.([]any)
		for _, value := range list {
			var e entry
			for path, into := range map[string]*string{l.Mark: &e.mark, l.ID: &e.id} {
				if found, err := pointer(value, path); path != "" && err == nil {
					*into = plain(found)
				}
			}
			paid, err := pointer(value, l.Amount)
			if err != nil {
				return b, err
			}
			if e.micro, err = amount(paid, l.MicroPerUnit); err != nil {
				return b, err
			}
			b.entries = append(b.entries, e)
		}
		switch {
		case strings.Contains(l.URL, "{page}"):
			if len(list) == 0 {
				return b, nil
			}
		case l.Next == "":
			return b, nil
		default:
			next, err := pointer(answer, l.Next)
			if err != nil || next == nil {
				return b, nil
			}
			separator := "?"
			if strings.Contains(l.URL, "?") {
				separator = "&"
			}
			request.URL = l.URL + separator + l.Cursor + "=" + url.QueryEscape(plain(next))
		}
	}
	return b, fmt.Errorf("the books of %s have more than %d pages", c.name, maxPages)
}

// A verdict contains the figures of a scenario.
type verdict struct {
	Scenario string `json:"scenario"`
	NotRun   string `json:"notRun,omitempty"` // the reason
	Error    string `json:"error,omitempty"`
	figures
	Sent      int      `json:"sent"`
	Delivered int      `json:"delivered"` // complete
	Refused   int      `json:"refused"`   // by a status of 4xx
	Failed    int      `json:"failed"`
	Short     int      `json:"endedShort"` // ended as if complete, with less text than the vendor's reply
	Partial   figure   `json:"billedWithoutCompleteReply"`
	Unended   figure   `json:"wholeTextWithoutEnd"` // all words arrived and then an error or nothing
	Measured  string   `json:"measured"`
	Seconds   float64  `json:"seconds"`
	Examples  []string `json:"examples,omitempty"`
	Notes     []string `json:"notes,omitempty"`
	Passed    bool     `json:"passed"`
}

func (v *verdict) example(format string, args ...any) {
	if len(v.Examples) < 10 {
		v.Examples = append(v.Examples, fmt.Sprintf(format, args...))
	}
}

// within reports whether no figure is beyond what an adapter allows, in this scenario or in each.
func (v *verdict) within(allowed map[string]map[string]figure) bool {
	for name, f := range v.all() {
		most, own := allowed[v.Scenario][name]
		if !own {
			most = allowed["*"][name]
		}
		if f.Calls > most.Calls || f.Micro > most.Micro {
			return false
		}
	}
	return true
}

// byCall reports whether the books name the call of each entry.
func (g *gateway) byCall() bool { return g.Books.Calls.Mark != "" || g.Books.Calls.ID != "" }

// matched returns the entries of each call, and those of no call.
func (b books) matched(c *customer) (of map[*call][]entry, other []entry) {
	byMark, byID := map[string]*call{}, map[string]*call{}
	for _, call := range c.calls {
		byMark[call.mark], byID[call.id] = call, call
	}
	delete(byID, "")
	of = map[*call][]entry{}
	for _, e := range b.entries {
		call := byMark[e.mark]
		if call == nil {
			call = byID[e.id]
		}
		if call == nil {
			other = append(other, e)
			continue
		}
		of[call] = append(of[call], e)
	}
	return of, other
}

// delivered reports whether the caller received all of what the vendor served, and its price.
func (r *run) delivered(c *call) (micro int64, ok bool) {
	served, _ := r.vendor.of(c.mark)
	return r.gateway.Price.of(served.input, served.output), c.ended && served.complete && c.got >= served.output
}

// settled reports whether the books have all delivered calls of a customer.
func (r *run) settled(c *customer, b books) bool {
	of, _ := b.matched(c)
	n := 0
	for _, call := range c.calls {
		if _, ok := r.delivered(call); ok {
			n++
			if r.gateway.byCall() && len(of[call]) == 0 {
				return false
			}
		}
	}
	return len(b.entries) >= n
}

// settle reads the books of all customers until they have all delivered calls and do not change, or the
// time of the adapter is over.
func (r *run) settle(ctx context.Context, customers []*customer) ([]books, error) {
	wait := time.Duration(cmp.Or(r.gateway.SettleSeconds, 10)) * time.Second
	ctx, cancel := context.WithTimeout(ctx, wait+time.Minute)
	defer cancel()
	began := time.Now()
	out := make([]books, len(customers))
	errs := make([]error, len(customers))
	before := ""
	for {
		var all sync.WaitGroup
		slots := make(chan struct{}, 8)
		for i, c := range customers {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				out[i], errs[i] = r.gateway.read(ctx, c)
			})
		}
		all.Wait()
		err := errors.Join(errs...)
		complete := err == nil
		state := ""
		for i, c := range customers {
			complete = complete && r.settled(c, out[i])
			state += fmt.Sprint(out[i].spent, len(out[i].entries), ",")
		}
		if complete && state == before || time.Since(began) > wait || ctx.Err() != nil {
			return out, err
		}
		before = state
		r.sleep(ctx, r.pause)
	}
}

// judge compares the books with what the vendor has served and the callers have received.
func (r *run) judge(v *verdict, customers []*customer, all []books) {
	v.Measured = "each billed call by its mark, and the spent amount of each key"
	if !r.gateway.byCall() {
		v.Measured = "number and sum of the billed calls of each key: a lost and a doubled call of one key can hide each other"
	}
	for i, c := range customers {
		b := all[i]
		var sum int64
		for _, e := range b.entries {
			sum += e.micro
		}
		for _, call := range c.calls {
			v.Sent++
			_, ok := r.delivered(call)
			switch {
			case ok:
				v.Delivered++
			case call.status/100 == 4:
				v.Refused++
			default:
				v.Failed++
				served, attempts := r.vendor.of(call.mark)
				switch {
				case call.ended && call.got < served.output:
					v.Short++
				case !call.ended && attempts > 0 && call.got >= served.output:
					v.Unended.add(1, r.gateway.Price.of(served.input, served.output))
				}
			}
		}
		before := v.Lost.Micro
		r.overrun(v, c, b, sum)
		if r.gateway.byCall() {
			r.eachCall(v, c, b)
		} else {
			r.counts(v, c, b, sum)
		}
		// A balance that differs from its entries has lost or doubled something itself, or has what the
		// entries lack.
		tolerance := r.gateway.RoundingMicro * int64(len(b.entries))
		switch gap := b.spent - sum; {
		case gap < -tolerance:
			v.Lost.add(0, -gap)
			v.example("%s: its calls come to %d, and %d is spent", c.name, sum, b.spent)
		case gap > tolerance:
			paid := min(gap, v.Lost.Micro-before)
			v.Lost.add(0, -paid)
			v.Doubled.add(0, gap-paid)
			v.example("%s: its calls come to %d, and %d is spent", c.name, sum, b.spent)
		}
	}
}

// overrun counts the billed calls past the cap: the fewest without which the rest fits.
func (r *run) overrun(v *verdict, c *customer, b books, sum int64) {
	over := max(b.spent, sum) - c.cap
	if over <= 0 {
		return
	}
	paid := make([]int64, len(b.entries))
	for i, e := range b.entries {
		paid[i] = e.micro
	}
	slices.Sort(paid)
	calls := int64(0)
	for rest := over; rest > 0 && len(paid) > 0; calls++ {
		rest, paid = rest-paid[len(paid)-1], paid[:len(paid)-1]
	}
	v.Overrun.add(max(calls, 1), over)
	v.example("%s may spend %d and has spent %d", c.name, c.cap, max(b.spent, sum))
}

func (r *run) eachCall(v *verdict, c *customer, b books) {
	of, other := b.matched(c)
	for _, call := range c.calls {
		entries := of[call]
		var paid, most int64
		for _, e := range entries {
			paid, most = paid+e.micro, max(most, e.micro)
		}
		cost, delivered := r.delivered(call)
		n := int64(len(entries))
		switch {
		case !delivered && n > 1:
			v.Doubled.add(n-1, paid-most)
			v.example("%s was not delivered and was billed %d times", call.mark, n)
		case !delivered && n == 1:
			if _, attempts := r.vendor.of(call.mark); attempts > 0 {
				v.Partial.add(1, paid)
				continue
			}
			v.Doubled.add(1, paid)
			v.example("%s never reached the vendor and was billed %d", call.mark, paid)
		case !delivered:
		case n == 0:
			v.Lost.add(1, cost)
			v.example("%s was delivered, costs %d, and was never billed", call.mark, cost)
		case n > 1 || paid > cost+r.gateway.RoundingMicro:
			v.Doubled.add(max(n-1, 1), max(paid-cost, 0))
			v.example("%s costs %d and was billed %d in %d entries", call.mark, cost, paid, n)
		case paid < cost-r.gateway.RoundingMicro:
			v.Free.add(1, cost-paid)
			v.example("%s was delivered, costs %d, and was billed %d", call.mark, cost, paid)
		}
	}
	for _, e := range other {
		v.Doubled.add(1, e.micro)
		v.example("%d was billed for %q %q of %s, which nobody called", e.micro, e.mark, e.id, c.name)
	}
}

// counts compares sums where the books do not name calls.
func (r *run) counts(v *verdict, c *customer, b books, sum int64) {
	var delivered, served, due, most int64 // most is the cost of all calls that the vendor has served in part
	for _, call := range c.calls {
		cost, ok := r.delivered(call)
		if ok {
			delivered, due = delivered+1, due+cost
		}
		if _, attempts := r.vendor.of(call.mark); attempts > 0 {
			served, most = served+1, most+cost
		}
	}
	n := int64(len(b.entries))
	tolerance := r.gateway.RoundingMicro * max(n, 1)
	missing := max(due-sum, 0)
	switch {
	case n < delivered:
		v.Lost.add(delivered-n, missing)
		v.example("%s received %d complete replies that cost %d, and was billed for %d calls, %d", c.name, delivered, due, n, sum)
	case missing > tolerance:
		v.Free.add(max(missing*delivered/max(due, 1), 1), missing)
		v.example("%s received complete replies that cost %d, and was billed %d", c.name, due, sum)
	case n > served || sum > most+tolerance:
		v.Doubled.add(max(n-served, 1), max(sum-most, 0))
		v.example("%s made %d calls that reached the vendor and cost %d at most, and was billed for %d calls, %d", c.name, served, most, n, sum)
	default:
		v.Partial.add(n-delivered, max(sum-due, 0))
	}
}
