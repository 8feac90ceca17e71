package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"stoa/internal/agents/drive"
	"stoa/internal/base/config"
	"stoa/internal/base/db"
	"stoa/internal/base/mail"
	"stoa/internal/base/outbound"
	"stoa/internal/base/stoa"
	"stoa/internal/models/upstream"
	"stoa/internal/operate/payment"
	"stoa/internal/operate/signin"
)

// newNetwork returns the network for addresses that callers choose, which never reaches the service itself. allowed
// are the destinations that need not be public.
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

// identityNetwork returns the network for identity providers. These may be in a private network, because the operator
// chooses them.
func identityNetwork(p Parts) (*outbound.Network, error) {
	allowed := []string{"0.0.0.0/0", "::/0"}
	for _, idp := range p.Config.SignIn.OIDC {
		if u, err := url.Parse(idp.Issuer); err == nil {
			allowed = append(allowed, outbound.HostPort(u)) // added by name, because a proxy resolves it
		}
	}
	return newNetwork(p, allowed)
}

// newSales returns the sale of credits; nil if the configuration sells none.
func newSales(p Parts, s *Service) (*payment.Sales, error) {
	settings := p.Config.Payments
	if !settings.Enabled() {
		return nil, nil
	}
	client, err := stripeClient(p)
	if err != nil {
		return nil, err
	}
	return &payment.Sales{
		Store: s.Store, Ledger: s.Ledger, Client: client,
		Settings: settings, PublicURL: p.Config.BaseURL(p.Address), Logger: s.log,
	}, nil
}

func stripeClient(p Parts) (*outbound.Client, error) {
	u, err := url.Parse(p.Config.Payments.Stripe.BaseURL())
	if err != nil {
		return nil, fmt.Errorf("payments.stripe.api: %w", err)
	}
	network, err := newNetwork(p, []string{outbound.HostPort(u)}) // may be private, because the operator chooses it
	if err != nil {
		return nil, err
	}
	return network.Client(outbound.Limits{Total: payment.RequestTime, Body: payment.MaxReply}), nil
}

// CheckOnline tries every connection of the service: the database; the bucket, in which it stores and removes an
// object; the mail server up to the login; identity providers; Stripe; and the providers' lists of models. It calls
// usable with the setting's path for each that answers, and returns an error for each that fails, so that one run
// shows all problems.
func CheckOnline(ctx context.Context, cfg config.Config, usable func(path string)) error {
	var all []error
	add := func(path string, err error) {
		if err == nil {
			usable(path)
		} else {
			all = append(all, &config.Problem{Where: cfg.Where(path), Path: path, Message: strings.Join(strings.Fields(err.Error()), " ")})
		}
	}
	if cfg.Database != "" {
		add("database", db.CheckPostgres(ctx, string(cfg.Database)))
	}
	if cfg.DatabaseListen != "" {
		add("databaseListen", db.CheckPostgres(ctx, string(cfg.DatabaseListen)))
	}
	for _, c := range neighbours(cfg) {
		add(c.path, c.try(ctx))
	}
	pool := upstream.New(upstream.Config{})
	for i, p := range cfg.Upstreams() {
		if !stoa.WireNamed(p.Wire).Lists {
			continue
		}
		_, _, err := pool.Models(ctx, p)
		add(fmt.Sprintf("providers[%d]", i), err)
	}
	return errors.Join(all...)
}

// A neighbour is a server that the service starts without.
type neighbour struct {
	path string // path of its settings
	try  func(context.Context) error
}

const pathBucket = "drive.store.s3"

// tryNeighbours logs which servers cannot be used. The service starts nevertheless, because they may become available
// later. It skips the bucket, because opening the drives checked it.
func (s *Service) tryNeighbours(ctx context.Context) {
	for _, c := range neighbours(s.config) {
		if c.path == pathBucket {
			continue
		}
		if err := c.try(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("a server of the configuration cannot be used", "setting", c.path, "error", err)
		}
	}
}

// neighbours returns the servers of a configuration, except the database and the providers of models.
func neighbours(cfg config.Config) (all []neighbour) {
	add := func(path string, try func(context.Context) error) { all = append(all, neighbour{path, try}) }
	if cfg.Drive.Store.S3.Endpoint != "" {
		add(pathBucket, func(ctx context.Context) error {
			bucket, err := drive.NewBucket(cfg.Drive.Store.S3)
			if err != nil {
				return err
			}
			return bucket.Try(ctx)
		})
	}
	if sender := mail.New(cfg.Mail.SMTP, nil); sender != nil {
		add("mail.smtp", sender.Check)
	}
	p := Parts{Config: cfg, Address: cfg.Listen}
	for i, idp := range cfg.SignIn.OIDC {
		add(fmt.Sprintf("signIn.oidc[%d].issuer", i), func(ctx context.Context) error {
			network, err := identityNetwork(p)
			if err != nil {
				return err
			}
			return signin.Check(ctx, idp, cfg.BaseURL(cfg.Listen), network.Client(outbound.Limits{Total: signin.RequestTime, Body: signin.MaxReply}))
		})
	}
	if cfg.Payments.Enabled() {
		add("payments.stripe", func(ctx context.Context) error {
			client, err := stripeClient(p)
			if err != nil {
				return err
			}
			return (&payment.Sales{Client: client, Settings: cfg.Payments}).Check(ctx)
		})
	}
	return all
}
