package rest

import (
	"hash/maphash"
	"net"
	"net/http"
	"strconv"
	"time"

	"stoa/internal/base/ratelimit"
	"stoa/internal/base/stoa"
)

// Rates returns the counters of requests per minute, by key and by account.
func (b *Base) Rates() *ratelimit.Rates { return &b.rates }

// consoleReads is the maximum number of reads per minute with a console session, for all keys of an
// account. They do not count against the limits of the key and its plan, because a page of the console sends
// several.
const consoleReads = 1200

// admit counts a request against the smaller of the key's and the plan's requests per minute, then against
// those of the account. Keys with the same [stoa.Key.Root] are counted together, so that creating
// keys does not raise the limit. Reads of the console count separately; see [consoleReads].
func (b *Base) admit(r *http.Request, c stoa.Caller) error {
	if b.LimitsOff() {
		return nil
	}
	now := time.Now()
	if session, _ := b.accountOfSession(r); session != "" && r.Method == http.MethodGet {
		if wait, ok := b.rates.Allow("console "+c.Account.ID, consoleReads, now); !ok {
			return stoa.Errorf(stoa.CodeRateLimit, "The console has reached its limit of %d reads per minute for this account. Try again in %d seconds.", consoleReads, wait/time.Second).After(wait)
		}
		return nil
	}
	most := smaller(c.Plan.RequestsPerMinute, c.Key.RequestsPerMinute)
	wait, ok := b.rates.Allow(c.Key.Root(), most, now)
	if !ok {
		return stoa.Errorf(stoa.CodeRateLimit, "This key has reached its limit of %d requests per minute. Try again in %d seconds.", most, wait/time.Second).After(wait)
	}
	most = c.Plan.RequestsPerMinutePerAccount
	if wait, ok = b.rates.Allow(c.Account.ID, most, now); !ok {
		return stoa.Errorf(stoa.CodeRateLimit, "The keys of this account have reached their common limit of %d requests per minute. Try again in %d seconds.", most, wait/time.Second).After(wait)
	}
	return nil
}

// enterRequest counts a request while it holds its connection. An account may use a quarter of the
// service's connections, so that it cannot lock out others.
func (b *Base) enterRequest(x *Exchange) error {
	if b.LimitsOff() {
		return nil
	}
	most := max(b.Limits.Connections/4, min(b.Limits.Connections, 1))
	if !b.running.Enter(x.Log.Caller.Account.ID, most) {
		return stoa.Errorf(stoa.CodeRateLimit, "This account has reached its limit of %d requests in progress, a quarter of the connections of this service. Try again when one has ended.", most).After(time.Second)
	}
	x.counted = true
	return nil
}

func (b *Base) leaveRequest(x *Exchange) {
	if x.counted {
		b.running.Leave(x.Log.Caller.Account.ID)
	}
}

// wrongKeys is the maximum number of requests with a wrong key per address and minute, so that keys
// cannot be guessed.
const wrongKeys = 60

// WrongKey counts a request whose key, token or session is wrong against its address. It returns err, or
// CodeRateLimit beyond [wrongKeys]. Only failures are counted, so that a valid key always passes.
func (b *Base) WrongKey(r *http.Request, err error) error {
	if stoa.CodeOf(err) != stoa.CodeUnauthorized || b.secretOf(r) == "" {
		return err
	}
	return b.WrongSecret(r, err)
}

// WrongSecret is like [Base.WrongKey], for a secret in the body.
func (b *Base) WrongSecret(r *http.Request, err error) error {
	if wait, ok := b.wrong.Allow(b.AddressSlot(r), wrongKeys, time.Now()); !ok && !b.LimitsOff() {
		return tooManyWrong(wait).Because(err)
	}
	return err
}

// CheckWrong returns CodeRateLimit if [Base.WrongSecret] refuses the request's address. A handler calls it before
// expensive work on a secret, because a refusal afterwards would save nothing.
func (b *Base) CheckWrong(r *http.Request) error {
	if wait, ok := b.wrong.Check(b.AddressSlot(r), wrongKeys, time.Now()); !ok && !b.LimitsOff() {
		return tooManyWrong(wait)
	}
	return nil
}

func tooManyWrong(wait time.Duration) *stoa.Error {
	return stoa.Errorf(stoa.CodeRateLimit, "Too many requests with a wrong key arrived from this address. Try again in %d seconds, or with a valid key.", wait/time.Second).After(wait)
}

// AddressSlot returns the name for counting requests from an address.
func (b *Base) AddressSlot(r *http.Request) string {
	address := b.ClientAddress(r)
	if address == "" { // the proxy does not name its client
		address, _, _ = net.SplitHostPort(r.RemoteAddr)
	}
	return strconv.FormatUint(maphash.String(b.addresses, address)%addressSlots, 10)
}

// addressSlots is the size of the address table. It is fixed, so that many addresses cannot fill the
// memory; two of them rarely share a slot.
const addressSlots = 1 << 14

// enterLinger counts a connection that is read after its reply, in total and for its network unless that may
// be a proxy, whose clients would share the limit. The returned function ends it.
func (b *Base) enterLinger(remote string) (leave func(), ok bool) {
	slots, most := &b.lingering, lingeringPerAddress
	network := b.Proxies.Network(remote)
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

// smaller returns the smaller limit; 0 means no limit.
func smaller(a, b int) int {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
