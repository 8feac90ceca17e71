package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"stoa/internal/auth"
	"stoa/internal/db"
	"stoa/internal/drive"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// A size is how much a store is filled with.
type size struct {
	receipts, sessions, files, text int // text: MB of one agent's drive
}

const (
	others      = 1000 // accounts beside the owner's
	agents      = 200  // of the owner
	batch       = 20_000
	filesPer    = 10_000 // of one of the owner's drives
	day         = 86_400_000_000
	span        = 90 * day // over which everything was made, in µs
	bigAgent    = "agt_big"
	seededBegin = 1_780_000_000_000_000 // when the oldest was made
)

// secretOf returns the key of the account with that number.
func secretOf(n int) string {
	return fmt.Sprintf("sk_bench_%05d_0123456789abcdefghijklmnopqrstuvwxyz", n)
}

// seed fills an empty store: seven tenths of everything belong to the owner.
func seed(ctx context.Context, dir, postgres string, n size) error {
	st, err := store.Open(ctx, store.Config{Dir: dir, PostgresURL: postgres, Durability: db.Process})
	if err != nil {
		return err
	}
	defer st.Close()
	keys := auth.New(st, func(id string) stoa.Plan { return stoa.Plan{ID: id} })
	owner, key, _, created, err := keys.Bootstrap(ctx, secretOf(0), 1000*stoa.Credit, "pro")
	if err != nil || !created {
		return fmt.Errorf("the store is not empty, or cannot be written: %w", err)
	}
	s := seeder{st: st, owner: owner.ID, key: key.ID}
	for _, step := range []func(context.Context, size) error{s.accounts, s.agents, s.sessions, s.receipts, s.tasks} {
		if err := step(ctx, n); err != nil {
			return err
		}
	}
	return s.drives(ctx, dir, postgres, n)
}

type seeder struct {
	st         *store.Store
	owner, key string
}

func (s *seeder) exec(ctx context.Context, query string, args ...any) error {
	return s.st.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	})
}

// rows runs an INSERT … SELECT for the numbers from 0 to n, which it knows as g.n.
func (s *seeder) rows(ctx context.Context, n int, insert, columns string) error {
	for from := 0; from < n; from += batch {
		to := min(n, from+batch) - 1
		if err := s.exec(ctx, fmt.Sprintf(`INSERT INTO %s WITH RECURSIVE g(n) AS (SELECT CAST(%d AS BIGINT) UNION ALL SELECT n + 1 FROM g WHERE n < %d) SELECT %s FROM g`,
			insert, from, to, columns)); err != nil {
			return fmt.Errorf("%.60s: %w", insert, err)
		}
	}
	return nil
}

// at is the SQL of the moment of the n-th of that many rows.
func at(rows int) string {
	return fmt.Sprintf("(%d + n * %d)", int64(seededBegin), int64(span)/int64(max(1, rows)))
}

func (s *seeder) accounts(ctx context.Context, _ size) error {
	if err := s.rows(ctx, others, `accounts (id, name, plan, granted, balance, created_at, updated_at)`,
		`'acc_s' || n, 'account ' || n, 'pro', 0, 0, `+at(others)+`, `+at(others)); err != nil {
		return err
	}
	return s.st.Write(ctx, func(tx *store.Tx) error {
		for i := range others {
			sum := sha256.Sum256([]byte(secretOf(i + 1)))
			if _, err := tx.InsertKey(ctx, stoa.Key{AccountID: fmt.Sprintf("acc_s%d", i), Hint: "h", Scopes: []string{stoa.ScopeAll}}, hex.EncodeToString(sum[:])); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *seeder) agents(ctx context.Context, _ size) error {
	const columns = `agents (id, account_id, space_id, name, description, instructions, model, drive_access, max_credits, timeout, max_steps, embed_enabled, metadata, version, revision, created_at, updated_at, deleted_at)`
	const values = `'an agent', 'of the benchmark', 'Answer briefly. ', 'auto', 'read_write', 0, 0, 0, 0, '{"a":"b"}', 1, 1, `
	if err := s.rows(ctx, 90, `spaces (id, account_id, name, description, metadata, revision, created_at, updated_at)`,
		`'spc_s' || n, '`+s.owner+`', 'a space', '', '{}', 1, `+at(others)+`, `+at(others)); err != nil {
		return err
	}
	if err := s.rows(ctx, agents, columns, `'agt_s' || n, '`+s.owner+`', 'spc_s' || (n % 10), `+values+at(agents)+`, `+at(agents)+`, 0`); err != nil {
		return err
	}
	if err := s.rows(ctx, 1, columns, `'`+bigAgent+`', '`+s.owner+`', 'spc_s0', `+values+at(agents)+`, `+at(agents)+`, 0`); err != nil {
		return err
	}
	if err := s.rows(ctx, others, columns, `'agt_a' || n, 'acc_s' || n, 'spc_a', `+values+at(others)+`, `+at(others)+`, 0`); err != nil {
		return err
	}
	return s.rows(ctx, agents*20, `agent_versions (agent_id, version, instructions, model, drive_access, max_credits, timeout, max_steps, created_at)`,
		`'agt_s' || (n / 20), n % 20 + 1, 'Answer briefly.', 'auto', 'read_write', 0, 0, 0, `+at(agents*20))
}

const (
	sessionOwner = `CASE WHEN n % 10 < 7 THEN '%s' ELSE 'acc_s' || (n %% 1000) END`
	sessionAgent = `CASE WHEN n % 10 = 0 THEN 'agt_s0' WHEN n % 10 < 7 THEN 'agt_s' || (n % 200) ELSE 'agt_a' || (n % 1000) END`
	sessionID    = `'ses_' || (1000000 + n)`
)

func (s *seeder) accountOf() string {
	return strings.Replace(strings.ReplaceAll(sessionOwner, "%%", "%"), "%s", s.owner, 1)
}

func (s *seeder) sessions(ctx context.Context, z size) error {
	n, when := z.sessions, at(z.sessions)
	if err := s.rows(ctx, n, `sessions (id, account_id, space_id, agent_id, key_id, agent_version, mode, status, turn, reply_id, input_id, queued_messages, model_asked, model_served, fallback,
			input_tokens, output_tokens, steps, spent, last_seq, trigger_type, trigger_id, external_user_id, title, metadata, max_credits, timeout, max_steps,
			revision, created_at, updated_at, started_at, finished_at, owner, fence, strikes, wake_at, due_at, cancel_at)`,
		sessionID+`, `+s.accountOf()+`, 'spc_s0', `+sessionAgent+`, '`+s.key+`', 1, 'chat', CASE WHEN n % 100 = 0 THEN 'failed' ELSE 'completed' END, 1, 'msg_' || (2000001 + 2 * n), '', 0, 'auto', 'alpha-haiku-4-5', 0,
			1200, 90, 1, 900, 8, CASE WHEN n < 100 THEN 'schedule' ELSE 'api' END, CASE WHEN n < 100 THEN 'run_' || n ELSE '' END, CASE WHEN n % 3 = 0 THEN 'user_' || (n % 5000) ELSE '' END, 'A title', '{"ticket":"4711"}', 0, 0, 0,
			4, `+when+`, `+when+`, `+when+`, `+when+`, '', 1, 0, 0, 0, 0`); err != nil {
		return err
	}
	if err := s.rows(ctx, n, `turns (session_id, number, id, status, reason, attempt, message_id, retry_of, failure_code, failure_message, failure_retryable, spent, created_at, started_at, finished_at, deadline_at)`,
		sessionID+`, 1, 'trn_' || n, 'completed', 'message', 1, 'msg_' || (2000000 + 2 * n), 0, '', '', 0, 900, `+when+`, `+when+`, `+when+`, 0`); err != nil {
		return err
	}
	if err := s.rows(ctx, 2*n, `messages (id, session_id, place, turn, step, role, kind, status, text, first_seq, created_at)`,
		`'msg_' || (2000000 + n), 'ses_' || (1000000 + n / 2), n % 2 + 1, 1, n % 2, CASE n % 2 WHEN 0 THEN 'user' ELSE 'assistant' END, 'text', 'completed',
			'A refund needs the invoice number, which is at the top right of the first page; without it the customer service asks for the address.', n % 2 * 6 + 1, `+at(2*n)); err != nil {
		return err
	}
	return s.rows(ctx, 8*n, `session_events (session_id, seq, type, at, data)`,
		`'ses_' || (1000000 + n / 8), n % 8 + 1, CASE WHEN n % 8 IN (2, 3, 4, 5) THEN 'message.delta' ELSE 'turn.started' END, `+at(8*n)+`, '{"messageId":"msg_1","text":"the invoice number"}'`)
}

func (s *seeder) receipts(ctx context.Context, z size) error {
	n := z.receipts
	account := s.accountOf()
	if err := s.rows(ctx, n, `charges (id, account_id, key_id, lease_id, node_id, asked, served, reason, provider, input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens,
			price_input, price_cached_input, price_output, price_version, amount, estimated, clamped, capped, written_off, state, end_user, space_id, agent_id, session_id, started_at, first_token, duration, created_at)`,
		`'resp_' || (10000000 + n), `+account+`, CASE WHEN n < 100 THEN 'key_rare' ELSE '`+s.key+`' END, 'led_' || `+account+`, 'node_seed', 'auto', CASE WHEN n < 100 THEN 'delta-v4-pro' ELSE 'model-' || (n % 4) END, '', 'p', 1000, 0, 0, 100, 0,
			1000000, 1000000, 5000000, '1', 1500, 0, 0, 0, 0, 'completed',
			CASE WHEN n % 10 = 3 THEN 'user_' || (n / 10 % 5000) ELSE '' END,
			CASE WHEN n % 10 < 3 THEN 'spc_s' || (n / 10 % 10) ELSE '' END,
			CASE WHEN n % 10 < 3 THEN 'agt_s' || (n / 10 % 200) ELSE '' END,
			CASE WHEN n % 10 < 3 THEN 'ses_' || (1000000 + n / 10) ELSE '' END,
			`+at(n)+`, 300000, 2000000, `+at(n)); err != nil {
		return err
	}
	// The books are in order: each account has one lease, all of it spent.
	for _, q := range []string{
		`INSERT INTO nodes (id, alive, started_at) VALUES ('node_seed', 0, 0)`,
		`INSERT INTO leases (id, account_id, node_id, amount, spent, is_open, created_at, closed_at)
			SELECT 'led_' || account_id, account_id, 'node_seed', SUM(amount), SUM(amount), 0, 0, 0 FROM charges GROUP BY account_id`,
		`INSERT INTO grants (id, account_id, amount, reason, created_at) SELECT 'grt_' || account_id, account_id, spent + 1000000, 'seed', 1 FROM leases WHERE node_id = 'node_seed'`,
		`UPDATE accounts SET granted = granted + (SELECT amount FROM grants WHERE id = 'grt_' || accounts.id), balance = balance + 1000000
			WHERE EXISTS (SELECT 1 FROM grants WHERE id = 'grt_' || accounts.id)`,
	} {
		if err := s.exec(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func (s *seeder) tasks(ctx context.Context, _ size) error {
	const tasks, runs = 1000, 100
	if err := s.rows(ctx, tasks, `tasks (account_id, id, name, message, mode, schedule_type, expression, timezone, every, run_at, start_at, end_at, max_runs, enabled, pause_reason, session_policy, missed_policy,
			catch_up_window, overlap_policy, pause_after, max_credits, session_id, anchor, cursor, next_at, failures, count_started, count_scheduled, count_completed, count_failed, count_cancelled, count_skipped,
			last_run_id, revision, updated_at, agent_id, key_id, created_at, deleted_at, retry_at)`,
		`'`+s.owner+`', 'tsk_' || n, 'a task', 'Report.', 'once', 'interval', '', 'UTC', 3600000000, 0, 0, 0, 0, 0, '', 'new', 'skip', 0, 'skip', 0, 0, '', 0, 0, 0, 0, 100, 100, 100, 0, 0, 0,
			'run_' || (n * 100 + 99), 1, `+at(tasks)+`, 'agt_s' || (n / 50), '`+s.key+`', `+at(tasks)+`, 0, 0`); err != nil {
		return err
	}
	if err := s.rows(ctx, tasks*runs, `task_runs (id, task_id, account_id, scheduled_for, trigger_kind, status, skip_reason, waiting, instants, through, session_id, turn, delay, revision, settle, created_at, started_at, finished_at)`,
		`'run_' || n, 'tsk_' || (n / 100), '`+s.owner+`', `+at(tasks*runs)+`, 'schedule', 'completed', '', '', 1, 0, 'ses_' || (1000000 + n % 70000), 1, 0, 1, 0, `+at(tasks*runs)+`, `+at(tasks*runs)+`, `+at(tasks*runs)); err != nil {
		return err
	}
	return s.rows(ctx, 1000, `embeds (id, account_id, agent_id, key_id, kind, chat_id, origins, external_user_id, greeting, theme, messages_per_minute, max_messages, max_message_chars, max_credits, spent_before,
			ticket, token_life, chat_life, expires_at, chat_expires_at, exchanged_at, revoked_at, used_at, messages, recent, refused, created_at)`,
		`'emu_' || n, '`+s.owner+`', 'agt_s' || (n / 500), '`+s.key+`', CASE n % 2 WHEN 0 THEN 'url' ELSE 'session' END, 'ses_' || (1000000 + n), '["https://example.com"]', 'user', '', '{}', 10, 0, 4000, 1000000, 0,
			'', 3600000000, 3600000000, `+at(1000)+`, 0, 0, 0, 0, 0, '[]', 0, `+at(1000))
}

// drives fills the drives of the owner's first agents and of other accounts, and
// one drive with that much text.
func (s *seeder) drives(ctx context.Context, dir, postgres string, z size) error {
	d, err := drive.Open(ctx, db.Config{Dir: dir, PostgresURL: postgres, Durability: db.Process}, drive.Limits{})
	if err != nil {
		return err
	}
	defer d.Close()
	w := newWords(60_000)
	fill := func(who drive.Owner, files, bytes int) error {
		var ops []drive.Op
		for i := range files {
			path, err := drive.ParsePath(fmt.Sprintf("folder%02d/file%05d.md", i%100, i))
			if err != nil {
				return err
			}
			ops = append(ops, drive.Op{Verb: drive.VerbPut, Path: path, Content: drive.BytesContent([]byte(w.text(bytes)))})
			if len(ops)*bytes >= 1<<20 || len(ops) == 500 || i == files-1 {
				if _, err := d.Apply(ctx, who, drive.Claim{}, ops); err != nil {
					return err
				}
				ops = ops[:0]
			}
		}
		return nil
	}
	left := z.files
	for i := 0; left > 3*z.files/10; i++ {
		n := min(filesPer, left-3*z.files/10)
		if err := fill(drive.Owner{AccountID: s.owner, AgentID: fmt.Sprintf("agt_s%d", i)}, n, 300); err != nil {
			return err
		}
		left -= n
	}
	for i := 0; left > 0; i++ {
		n := min(100, left)
		if err := fill(drive.Owner{AccountID: fmt.Sprintf("acc_s%d", i), AgentID: fmt.Sprintf("agt_a%d", i)}, n, 300); err != nil {
			return err
		}
		left -= n
	}
	return fill(drive.Owner{AccountID: s.owner, AgentID: bigAgent}, 10*z.text, 100_000)
}

// words makes text with the frequencies of words in a language: the n-th word
// comes 1/n as often as the first.
type words struct {
	r    *rand.Rand
	list []string
}

func newWords(n int) *words {
	w := &words{r: rand.New(rand.NewPCG(1, 2))}
	common := strings.Fields(`the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which one you were
		refund shipping invoice customer account password delivery warranty returns policy discount support ticket payment address order cancel subscription upgrade plan`)
	w.list = append(w.list, common...)
	syllables := strings.Fields("ba be bi bo ca ce co da de di do fa fe ga go ha he ka ki la le li lo ma me mi mo na ne ni no pa pe pi po ra re ri ro sa se si so ta te ti to va ve vi wa we za zo")
	for len(w.list) < n {
		var b strings.Builder
		for range 2 + w.r.IntN(4) {
			b.WriteString(syllables[w.r.IntN(len(syllables))])
		}
		w.list = append(w.list, b.String())
	}
	return w
}

func (w *words) text(bytes int) string {
	var b strings.Builder
	b.Grow(bytes + 20)
	for i := 0; b.Len() < bytes; i++ {
		rank := int(math.Exp(w.r.Float64()*math.Log(float64(len(w.list))))) - 1
		b.WriteString(w.list[min(rank, len(w.list)-1)])
		b.WriteByte(" \n"[min(1, i%14/13)])
	}
	return b.String()
}
