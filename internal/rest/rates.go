package rest

import (
	"hash/maphash"
	"net"
	"net/http"
	"strconv"
	"time"

	"stoa/internal/listen"
	"stoa/internal/ratelimit"
	"stoa/internal/stoa"
)

// Rates returns the counters of requests per minute, by key and by account.
func (b *Base) Rates() *ratelimit.Rates { return &b.rates }

// admit counts a request of a key against the smaller of its own and its plan's
// requests per minute, then against those of the account. A key is counted with
// those that share its book, so that no key gets more by creating others.
func (b *Base) admit(c stoa.Caller) error {
	if b.LimitsOff() {
		return nil
	}
	most := smaller(c.Plan.RequestsPerMinute, c.Key.RequestsPerMinute)
	now := time.Now()
	wait, ok := b.rates.Allow(c.Key.Root(), most, now)
	if !ok {
		return stoa.Errorf(stoa.CodeRateLimit, "This key may make %d requests in a minute and has made them. Try again in %d seconds.", most, wait/time.Second).After(wait)
	}
	most = c.Plan.RequestsPerMinutePerAccount
	if wait, ok = b.rates.Allow(c.Account.ID, most, now); !ok {
		return stoa.Errorf(stoa.CodeRateLimit, "The keys of this account may make %d requests in a minute together and have made them. Try again in %d seconds.", most, wait/time.Second).After(wait)
	}
	return nil
}

// wrongKeys is how many requests with a wrong key an address may make in a minute
// before they are refused as such.
const wrongKeys = 60

// WrongKey counts a request whose key or token is wrong against its address: it
// returns err, or CodeRateLimit beyond [wrongKeys]. Only failures are counted, so a
// good key always passes. Addresses share a table of fixed size.
func (b *Base) WrongKey(r *http.Request, err error) error {
	if stoa.CodeOf(err) != stoa.CodeUnauthorized || r.Header.Get("Authorization") == "" || b.LimitsOff() {
		return err
	}
	address := ClientAddress(r)
	if address == "" { // of a proxy that does not say for whom it asks
		address, _, _ = net.SplitHostPort(r.RemoteAddr)
	}
	slot := maphash.String(b.addresses, address) % addressSlots
	wait, ok := b.wrong.Allow(strconv.FormatUint(slot, 10), wrongKeys, time.Now())
	if ok {
		return err
	}
	return stoa.Errorf(stoa.CodeRateLimit, "Too many requests with a wrong key came from this address. Try again in %d seconds, or with a key that is right.", wait/time.Second).After(wait).Because(err)
}

// addressSlots bounds the table of addresses; two addresses rarely share a slot.
const addressSlots = 1 << 14

// enterLinger counts a connection that is read after its reply, in all and for its
// network unless that may be a proxy; the function it returns ends that.
func (b *Base) enterLinger(remote string) (leave func(), ok bool) {
	slots, most := &b.lingering, lingeringPerAddress
	network := listen.Network(remote)
	if !network.IsValid() {
		most = 0
	}
	if !slots.Enter("", lingering) {
		return nil, false
	}
	name := network.String()
	if !slots.Enter(name, most) {
		slots.Leave("")
		return nil, false
	}
	return func() { slots.Leave(name); slots.Leave("") }, true
}

func (b *Base) LimitsOff() bool { return b.RateLimited != nil && !b.RateLimited() }

// smaller is the smaller of two limits, where 0 is none.
func smaller(a, b int) int {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
