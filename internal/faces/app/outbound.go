package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"stoa/internal/base/config"
	"stoa/internal/base/outbound"
	"stoa/internal/operate/payment"
	"stoa/internal/operate/signin"
)

// newNetwork returns the network for addresses that callers choose, which never reaches the
// service itself. allowed are the destinations that need not be public.
func newNetwork(p Parts, allowed []string) (*outbound.Network, error) {
	o := p.Config.Outbound
	allow, err := outbound.ParseDestinations(allowed)
	if err != nil {
		return nil, fmt.Errorf("outbound.allow: %w", err)
	}
	deny, err := outbound.ParseDestinations(o.Deny)
	if err != nil {
		return nil, fmt.Errorf("outbound.deny: %w", err)
	}
	proxy, err := o.ProxyURL()
	if err != nil {
		return nil, fmt.Errorf("outbound.proxy: %w", err)
	}
	own := []string{p.Address, p.Admin}
	if origin, err := url.Parse(p.Config.BaseURL(p.Address)); err == nil {
		own = append(own, outbound.HostPort(origin))
	}
	settings := outbound.Settings{Allow: allow, Deny: deny, Proxy: proxy, Own: own}
	adjust(p.Network, &settings)
	return outbound.New(settings), nil
}

// identityNetwork returns the network for identity providers: the operator chooses them, so they
// may also be in a private network.
func identityNetwork(p Parts) (*outbound.Network, error) {
	allowed := []string{"0.0.0.0/0", "::/0"}
	for _, idp := range p.Config.SignIn.OIDC {
		if u, err := url.Parse(idp.Issuer); err == nil {
			allowed = append(allowed, outbound.HostPort(u)) // a proxy resolves the name
		}
	}
	return newNetwork(p, allowed)
}

// newSales returns the sale of credits; nil if the configuration has none.
func newSales(p Parts, s *Service) (*payment.Sales, error) {
	settings := p.Config.Payments
	if !settings.Enabled() {
		return nil, nil
	}
	u, err := url.Parse(settings.Stripe.BaseURL())
	if err != nil {
		return nil, fmt.Errorf("payments.stripe.api: %w", err)
	}
	network, err := newNetwork(p, []string{outbound.HostPort(u)}) // the operator chooses it
	if err != nil {
		return nil, err
	}
	return &payment.Sales{
		Store: s.Store, Ledger: s.Ledger, Client: network.Client(outbound.Limits{Total: payment.RequestTime, Body: payment.MaxReply}),
		Settings: settings, PublicURL: p.Config.BaseURL(p.Address), Logger: s.log,
	}, nil
}

// CheckOnline returns errors of a configuration that only other servers know: issuers of identity
// providers that differ from those in their discovery documents.
func CheckOnline(ctx context.Context, cfg config.Config) error {
	network, err := identityNetwork(Parts{Config: cfg, Address: cfg.Listen})
	if err != nil {
		return err
	}
	client := network.Client(outbound.Limits{Total: signin.RequestTime, Body: signin.MaxReply})
	var all []error
	for i, idp := range cfg.SignIn.OIDC {
		if err := signin.CheckIssuer(ctx, idp, client); err != nil {
			path := fmt.Sprintf("signIn.oidc[%d].issuer", i)
			all = append(all, &config.Problem{Where: cfg.Where(path), Path: path, Message: err.Error()})
		}
	}
	return errors.Join(all...)
}
