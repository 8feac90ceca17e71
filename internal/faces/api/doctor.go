package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"stoa/internal/agents/webhook"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	diagnosisItems   = 20     // of one check
	diagnosisRows    = 1_000  // rows that are counted
	diagnosisSecrets = 10_000 // secrets of each kind that are opened
	lateDelivery     = 5 * time.Minute
	clockSkew        = 2 * time.Second
	leastDisk        = 1 << 30 // bytes
	warmTimeout      = time.Second
	mailTimeout      = 5 * time.Second
)

// A Machine contains data about the machine of a node.
type Machine struct {
	FreeDisk, Disk     uint64 // bytes of the file system with the data directory; 0 if unknown
	OpenFiles, NeedsOf uint64 // the limit on open files, and the maximum number that the process may need; 0 if unknown
}

const (
	checkOK        = "ok"
	checkAttention = "attention"
	checkUnknown   = "unknown"
)

func (s *Doctor) getDiagnosis(ctx context.Context, _ rest.Request[rest.None, rest.None]) (rest.Reply[contract.Diagnosis], error) {
	out := contract.Diagnosis{Status: checkOK, CheckedAt: contract.Time(time.Now())}
	for _, c := range []struct {
		name  string
		check func(context.Context) (check, error)
	}{
		{"store", s.checkStores},
		{"connections", s.checkConnections},
		{"secrets", s.checkSecrets},
		{"webhooks", s.checkWebhooks},
		{"waiting", s.checkWaiting},
		{"publicUrl", s.checkPublicURL},
		{"proxies", s.checkProxies},
		{"clock", s.checkClock},
		{"disk", s.checkDisk},
		{"files", s.checkFiles},
		{"providers", s.checkProviders},
		{"models", s.checkModels},
		{"documents", s.checkDocuments},
		{"mail", s.checkMail},
		{"members", s.checkMembers},
		{"alerts", s.checkAlerts},
	} {
		found, err := c.check(ctx)
		if err != nil { // because an error becomes a finding, so that the other checks are still shown
			found = check{status: checkUnknown, summary: "The check failed: " + stoa.AsError(err).Message}
			s.Logger.WarnContext(ctx, "a check of the service failed", "check", c.name, "error", err)
		}
		if found.status == checkAttention {
			out.Status = checkAttention
		}
		out.Checks = append(out.Checks, found.contract(c.name))
	}
	return rest.Reply[contract.Diagnosis]{Body: out}, nil
}

type check struct {
	status, summary string
	count           int
	items           []store.Finding
}

func (c check) contract(name string) contract.DiagnosisCheck {
	out := contract.DiagnosisCheck{Name: name, Status: c.status, Summary: c.summary, Count: int64(c.count), Items: []contract.DiagnosisItem{}}
	for _, f := range c.items[:min(len(c.items), diagnosisItems)] {
		out.Items = append(out.Items, contract.DiagnosisItem{AccountID: nullIfZero(f.AccountID), ID: nullIfZero(f.ID), Detail: f.Detail, Since: nullIfNever(f.Since)})
	}
	return out
}

func attentionIf(found bool, summary, otherwise string) check {
	if found {
		return check{status: checkAttention, summary: summary}
	}
	return check{status: checkOK, summary: otherwise}
}

func findings(items []store.Finding, summary, otherwise string) check {
	c := attentionIf(len(items) > 0, summary, otherwise)
	c.count, c.items = len(items), items
	return c
}

func (s *Doctor) checkStores(ctx context.Context) (check, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := errors.Join(s.Store.Health(ctx), s.Drives.DB().Health(ctx))
	if err != nil {
		return check{status: checkAttention, summary: "A database is unavailable: " + stoa.AsError(err).Message}, nil
	}
	if err := s.Store.CheckServer(ctx); err != nil {
		return check{status: checkAttention, summary: "A new connection to PostgreSQL cannot be used: " + err.Error() + "."}, nil
	}
	return check{status: checkOK, summary: "The databases are available."}, nil
}

func (s *Doctor) checkMembers(ctx context.Context) (c check, err error) {
	err = s.Store.Report(ctx, func(tx *store.Tx) (err error) {
		c.items, err = tx.Operations().KeptOwners(ctx, diagnosisRows)
		return err
	})
	return findings(c.items, fmt.Sprintf("%s an owner though the groups of the identity provider no longer say so, because the account has no other owner (at most %d are counted). Make another member the owner, then remove this one.", counted(len(c.items), "person stays", "people stay"), diagnosisRows),
		"No owner has lost the group that gave the role."), err
}

func (s *Doctor) checkProxies(context.Context) (check, error) {
	return attentionIf(s.UnreadForwarded(), "An address in X-Forwarded-For could not be read, so limits per address did not apply: let the proxy append the client's address. The log has the value.",
		"All addresses in X-Forwarded-For could be read."), nil
}

func (s *Doctor) checkConnections(ctx context.Context) (c check, err error) {
	var failing, waiting []store.Finding
	err = s.Store.Report(ctx, func(tx *store.Tx) (err error) {
		if failing, err = tx.Operations().FailingConnections(ctx, diagnosisRows); err == nil {
			waiting, err = tx.Operations().UnauthorizedConnections(ctx, diagnosisRows)
		}
		return err
	})
	all := append(failing, waiting...)
	return findings(all, fmt.Sprintf("%s not ready (at most %d of each kind are counted). Their owners can see the reason at the connection.", counted(len(all), "connection is", "connections are"), diagnosisRows), "All connections are ready."), err
}

func (s *Doctor) checkSecrets(ctx context.Context) (c check, err error) {
	rows, looked, err := s.Tools.Vault.Unreadable(ctx, s.Store, diagnosisSecrets)
	if len(rows) == 0 && !s.Tools.Vault.CanSeal() {
		return check{status: checkAttention, summary: "There is no key to encrypt secrets with, so webhooks and credentials for tools cannot be created: set secrets.keys."}, err
	}
	for _, row := range rows {
		c.items = append(c.items, store.Finding{AccountID: row.AccountID, ID: row.ID, Detail: "Its kind is " + row.Kind + "."})
	}
	return findings(c.items, fmt.Sprintf("Of %d stored secrets, %d cannot be decrypted: their encryption key is missing (secrets.keys).", looked, len(rows)), fmt.Sprintf("All stored secrets can be decrypted (%d).", looked)), err
}

func (s *Doctor) checkWebhooks(ctx context.Context) (c check, err error) {
	var failed, failing []store.Finding
	var n, pending int
	var oldest time.Time
	err = s.Store.Report(ctx, func(tx *store.Tx) (err error) {
		if failing, err = tx.Operations().FailingWebhooks(ctx, "", tx.Now.Add(-webhook.FailingAfter), diagnosisRows); err != nil {
			return err
		}
		if failed, n, err = tx.Operations().FailedDeliveries(ctx, diagnosisItems, diagnosisRows); err == nil {
			pending, oldest, err = tx.Operations().PendingDeliveries(ctx, diagnosisRows)
		}
		return err
	})
	lag := time.Duration(0)
	if !oldest.IsZero() && oldest.UnixMicro() > 0 {
		lag = max(0, time.Since(oldest))
	}
	var problems []string
	if len(failing) > 0 {
		problems = append(problems, counted(len(failing), "webhook does not work", "webhooks do not work"))
	}
	if n > 0 {
		problems = append(problems, counted(n, "delivery failed permanently", "deliveries failed permanently"))
	}
	if lag > lateDelivery {
		problems = append(problems, fmt.Sprintf("the oldest of %s is %s late", counted(pending, "pending delivery", "pending deliveries"), lag.Round(time.Second)))
	}
	c = attentionIf(len(problems) > 0, fmt.Sprintf("%s (at most %d of each are counted).", strings.Join(problems, "; "), diagnosisRows), "All webhooks work, and no delivery is late.")
	c.count, c.items = n+len(failing), append(failing, failed...)
	return c, err
}

func (s *Doctor) checkWaiting(ctx context.Context) (c check, err error) {
	var kinds []store.WaitingKind
	err = s.Store.Report(ctx, func(tx *store.Tx) (err error) {
		if kinds, err = tx.Operations().Waiting(ctx, diagnosisRows); err == nil {
			c.items, err = tx.Operations().LongestWaiting(ctx, diagnosisItems)
		}
		return err
	})
	c.status = checkOK
	for _, k := range kinds {
		c.count += int(k.Count)
	}
	c.summary = fmt.Sprintf("%s for a person or a program (at most %d are counted).", counted(c.count, "question or call waits", "questions and calls wait"), diagnosisRows)
	return c, err
}

func (s *Doctor) checkPublicURL(ctx context.Context) (c check, err error) {
	var wanted bool
	err = s.Store.Report(ctx, func(tx *store.Tx) (err error) {
		wanted, err = tx.Operations().HasOAuthConnections(ctx)
		return err
	})
	if _, none := s.Tools.ClientDocument(); none != nil && wanted {
		return check{status: checkAttention, summary: "Connections use OAuth, but authorization servers cannot redirect back to the service: set publicUrl to its https address."}, err
	}
	return check{status: checkOK, summary: "publicUrl is set, or not required."}, err
}

func (s *Doctor) checkClock(ctx context.Context) (c check, err error) {
	offset, within, known, err := s.Store.ClockOffset(ctx)
	if err != nil || !known {
		return check{status: checkOK, summary: "There is one node, and one clock."}, err
	}
	return attentionIf(offset.Abs() > clockSkew+within, fmt.Sprintf("The clock of this node and that of PostgreSQL are %s apart. Synchronize them.", offset.Abs().Round(time.Millisecond)),
		fmt.Sprintf("The clock of this node and that of PostgreSQL are %s apart. Check each node separately.", offset.Abs().Round(time.Millisecond))), nil
}

func counted(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (s *Doctor) machine() Machine {
	if s.Machine == nil {
		return Machine{}
	}
	return s.Machine()
}

func (s *Doctor) checkDisk(context.Context) (check, error) {
	m := s.machine()
	if m.Disk == 0 {
		return check{status: checkUnknown, summary: "The free disk space cannot be determined on this system."}, nil
	}
	summary := fmt.Sprintf("%d MiB of %d MiB are free on the file system with the data directory.", m.FreeDisk>>20, m.Disk>>20)
	return attentionIf(m.FreeDisk < leastDisk, summary+" Requests are rejected when it is full.", summary), nil
}

func (s *Doctor) checkFiles(context.Context) (check, error) {
	m := s.machine()
	if m.OpenFiles == 0 {
		return check{status: checkUnknown, summary: "The limit on open files cannot be determined on this system."}, nil
	}
	summary := fmt.Sprintf("The process can open %d files, and may need about %d.", m.OpenFiles, m.NeedsOf)
	return attentionIf(m.OpenFiles < m.NeedsOf, summary+" Raise the limit (LimitNOFILE, ulimit -n), or lower limits.connections.", summary), nil
}

func (s *Doctor) checkProviders(context.Context) (check, error) {
	var off []string
	if s.Pool != nil {
		for _, p := range s.Pool().Providers {
			if p.Disabled {
				off = append(off, p.Name)
			}
		}
	}
	cat := s.Catalog.Load()
	stopped := cat.Stopped()
	c := attentionIf(len(stopped) > 0, fmt.Sprintf("All providers of %d models are disabled, so these models answer 503: enable a provider, or add a route to another one.", len(stopped)),
		fmt.Sprintf("No model lacks a provider because of a disabled one (%d are disabled).", len(off)))
	if cat.DefaultModel(stoa.Plan{}) == "" {
		c.status, c.summary = checkAttention, strings.TrimSpace("`auto` has no model with a provider, so calls that use it answer 503: give a family a provider, or set auto. "+c.summary)
	}
	c.count = len(stopped)
	for _, name := range off {
		c.items = append(c.items, store.Finding{ID: name, Detail: "It is disabled."})
	}
	for _, id := range stopped {
		c.items = append(c.items, store.Finding{ID: id, Detail: "All its providers are disabled."})
	}
	return c, nil
}

func (s *Doctor) checkModels(context.Context) (check, error) {
	var found []store.Finding
	if s.Listings != nil {
		found = s.Listings()
	}
	return findings(found, "Not all models that servers list can be called by their names there.", "All models that servers list can be called by their names there."), nil
}

func (s *Doctor) checkDocuments(ctx context.Context) (check, error) {
	ctx, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()
	var err error
	if s.Documents != nil {
		err = s.Documents(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return check{status: checkUnknown, summary: "The reader of PDF files is being compiled."}, nil
	}
	if err != nil {
		return check{status: checkAttention, summary: fmt.Sprintf("Not all documents can be read: %v.", err)}, nil
	}
	summary := "All supported documents can be read."
	outdated, err := s.Drives.Outdated(ctx, diagnosisRows)
	if outdated > 0 {
		summary += fmt.Sprintf(" %s read again by newer readers (at most %d are counted); their former texts are used until then.", counted(outdated, "text is", "texts are"), diagnosisRows)
	}
	return check{status: checkOK, summary: summary, count: outdated}, err
}

func (s *Doctor) checkMail(ctx context.Context) (check, error) {
	if s.Hooks.Mail.Sender == nil {
		return check{status: checkOK, summary: "The service sends no mail (mail.smtp is not set)."}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, mailTimeout)
	defer cancel()
	err := s.Hooks.Mail.Sender.Check(ctx)
	return attentionIf(err != nil, fmt.Sprintf("Mail cannot be sent: %v. Check mail.smtp.", err), "The mail server accepts mail of the service."), nil
}

func (s *Doctor) checkAlerts(ctx context.Context) (c check, err error) {
	err = s.Store.Report(ctx, func(tx *store.Tx) error {
		open, err := tx.Operations().Alerts(ctx, diagnosisRows)
		c.items = nil
		for _, a := range open {
			c.items = append(c.items, store.Finding{ID: a.Subject, Detail: a.Kind, Since: a.OpenedAt})
		}
		return err
	})
	return findings(c.items, fmt.Sprintf("%s open (at most %d are counted).", counted(len(c.items), "alert is", "alerts are"), diagnosisRows), "No alert is open."), err
}
