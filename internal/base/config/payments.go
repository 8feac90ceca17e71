package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"stoa/internal/base/stoa"
)

// Payments configures the sale of credits. Without a key of Stripe nothing is sold.
type Payments struct {
	Stripe Stripe          `yaml:"stripe"`
	Packs  map[string]Pack `yaml:"packs"`
}

// Stripe is the operator's account at Stripe, which processes the payments.
type Stripe struct {
	KeyEnv  string `yaml:"keyEnv,omitempty"`  // variable with the secret key; set one of these two
	KeyFile string `yaml:"keyFile,omitempty"` // file with the key
	// WebhookSecrets are the signing secrets of the endpoint: one, or two while it changes.
	WebhookSecrets []WebhookSecret `yaml:"webhookSecrets,omitempty"`
	API            string          `yaml:"api,omitempty"` // base URL; empty means https://api.stripe.com

	key *string // key from one of the two; a pointer for the reason in Provider
}

// A WebhookSecret signs the notifications of Stripe.
type WebhookSecret struct {
	Env  string `yaml:"env,omitempty"`  // variable with the secret; set one of these two
	File string `yaml:"file,omitempty"` // file with the secret

	secret *string
}

// A Pack is an amount of credits with a price.
type Pack struct {
	Name         string       `yaml:"name"`
	Price        int64        `yaml:"price"`    // price in the smallest unit of the currency, such as cents
	Currency     string       `yaml:"currency"` // ISO 4217 in lower case, as Stripe requires
	CreditsMicro stoa.Credits `yaml:"creditsMicro"`
}

const stripeAPI = "https://api.stripe.com"

const (
	maxPacks          = 50
	maxPackPrice      = 99_999_999 // maximum amount of Stripe
	maxPackCredits    = 1_000_000 * stoa.Credit
	maxWebhookSecrets = 2
)

// Enabled reports whether credits are sold.
func (p Payments) Enabled() bool { return p.Stripe.KeyEnv != "" || p.Stripe.KeyFile != "" }

// Key returns the secret key.
func (s Stripe) Key() string { return or(s.key) }

// Live reports whether the key moves money, unlike a key of the test mode.
func (s Stripe) Live() bool { return strings.Contains(s.Key(), "_live_") }

// BaseURL returns the API's address without a trailing slash.
func (s Stripe) BaseURL() string { return strings.TrimSuffix(cmp.Or(s.API, stripeAPI), "/") }

// Secrets returns the signing secrets.
func (s Stripe) Secrets() (list []string) {
	for _, w := range s.WebhookSecrets {
		list = append(list, or(w.secret))
	}
	return list
}

var (
	stripeKey      = regexp.MustCompile(`^(sk|rk)_(test|live)_[A-Za-z0-9_]+$`)
	stripeSecret   = regexp.MustCompile(`^whsec_[A-Za-z0-9+/=_-]+$`)
	stripeCurrency = regexp.MustCompile(`^[a-z]{3}$`)
)

// payments checks the payment settings. It sends no request, so that the service starts without Stripe.
func (c *checker) payments() {
	const path = "payments.stripe"
	s := c.Payments.Stripe
	if !c.Payments.Enabled() {
		if len(s.WebhookSecrets) > 0 || len(c.Payments.Packs) > 0 {
			c.problem(path, "selling credits needs the secret key of Stripe; set keyEnv or keyFile")
		}
		return
	}
	if s.KeyEnv != "" && s.KeyFile != "" {
		c.problem(path, "keyEnv and keyFile are set; keep one of them")
	}
	if key := s.Key(); key != "" && !stripeKey.MatchString(key) {
		c.problem(path, "the key is not a secret or restricted key of Stripe; they begin with sk_live_, rk_live_, sk_test_ or rk_test_")
	}
	switch n := len(s.WebhookSecrets); {
	case n == 0:
		c.problem(path+".webhookSecrets", "the signing secret of the webhook endpoint is missing, without which anybody could confirm payments; create an endpoint at Stripe for /hooks/stripe and set its secret")
	case n > maxWebhookSecrets:
		c.problem(path+".webhookSecrets", "%d are too many; use one, or two while the secret changes", n)
	}
	for i, w := range s.WebhookSecrets {
		at := fmt.Sprintf("%s.webhookSecrets[%d]", path, i)
		switch secret := or(w.secret); {
		case (w.Env == "") == (w.File == ""):
			c.problem(at, "set either env or file")
		case secret != "" && !stripeSecret.MatchString(secret):
			c.problem(at, "this is not the signing secret of an endpoint; they begin with whsec_")
		}
	}
	if s.API != "" {
		if u, err := url.Parse(s.API); err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Scheme != "https" && !isLocalHTTP(u) {
			c.problem(path+".api", "%q is not an https address; leave it out for that of Stripe", s.API)
		}
	}
	if c.PublicURL == "" {
		c.problem("publicUrl", "people return to this address from Stripe after a payment; set it")
	}
	c.packs()
}

func (c *checker) packs() {
	packs := c.Payments.Packs
	if n := len(packs); n == 0 || n > maxPacks {
		c.problem("payments.packs", "there are %d packs; define 1 to %d", n, maxPacks)
	}
	for _, id := range slices.Sorted(maps.Keys(packs)) {
		p, path := packs[id], "payments.packs."+id
		if !isName(id) {
			c.problem(path, "the name of a pack has lowercase letters, digits, - and _ only")
		}
		if n := len(p.Name); n == 0 || n > 200 {
			c.problem(path+".name", "the name has %d bytes; write what people buy, such as 20 credits, in up to 200", n)
		}
		if p.Price < 1 || p.Price > maxPackPrice {
			c.problem(path+".price", "%d is out of range; write the price in the smallest unit of the currency, such as 2000 for 20.00", p.Price)
		}
		if !stripeCurrency.MatchString(p.Currency) {
			c.problem(path+".currency", "%q is not a currency; write one such as eur", p.Currency)
		}
		if p.CreditsMicro < 1 || p.CreditsMicro > maxPackCredits {
			c.problem(path+".creditsMicro", "%d is out of range; use micro-credits, such as 20000000 for 20 credits", int64(p.CreditsMicro))
		}
	}
}
