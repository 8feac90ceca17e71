package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A Lineage makes all connections of a process lead to one PostgreSQL database: after a failover the
// old primary may be started again and accept writes, and a name or an address may move back to it.
// Without this check a pool would write to both, since only new connections lead there. The zero
// value remembers nothing beyond the process. It is safe for concurrent use.
type Lineage struct {
	file string // in which the newest server is kept; "" for none
	log  *slog.Logger

	mu      sync.Mutex
	newest  server
	kept    server    // in the file
	begun   bool      // this process has accepted a connection
	hidden  bool      // the server does not say which one it is
	reports time.Time // when a refusal may be logged again
}

// A server is the origin of the data of a PostgreSQL server.
type server struct {
	System   string `json:"systemIdentifier"` // from initdb; a standby and a file backup have it too
	Timeline uint64 `json:"timeline"`         // higher after each promotion; 0 for a standby
}

// LineageFile is the name of the file in the data directory with the newest known server.
const LineageFile = "postgresql.json"

const reportPause = time.Minute

// NewLineage returns the lineage of a process. dir is the data directory, from which a start knows the
// server of the process before; "" for none.
func NewLineage(dir string, log *slog.Logger) *Lineage {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l := &Lineage{log: log}
	if dir == "" {
		return l
	}
	l.file = filepath.Join(dir, LineageFile)
	content, err := os.ReadFile(l.file)
	if err == nil {
		err = json.Unmarshal(content, &l.newest)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Warn("the last PostgreSQL server is not known", "file", l.file, "error", err)
	}
	l.kept = l.newest
	return l
}

// errRefused is in the chain of the error of a connection that must not be used. Another host of the
// address may lead to the right server.
var errRefused = errors.New("the connection was refused")

// surveyTime limits the time in which a start looks at the servers of an address.
const surveyTime = 5 * time.Second

// survey finds the highest timeline among the servers of an address, before the first connection. After a failover
// two of them may accept writes. Without the file, only a comparison shows that the first one is an old primary.
func (l *Lineage) survey(ctx context.Context, address *pgx.ConnConfig) {
	if l == nil || oneHost(address) || l.hasBegun() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, surveyTime) // a server that is away delays a start
	defer cancel()
	hosts := append([]*pgconn.FallbackConfig{{Host: address.Host, Port: address.Port, TLSConfig: address.TLSConfig}}, address.Fallbacks...)
	var all sync.WaitGroup
	for _, host := range hosts {
		all.Go(func() {
			one := address.Config.Copy()
			one.Host, one.Port, one.TLSConfig, one.Fallbacks, one.ValidateConnect, one.AfterConnect = host.Host, host.Port, host.TLSConfig, nil, nil, nil
			c, err := pgconn.ConnectConfig(ctx, one)
			if err != nil {
				return // because it is not needed
			}
			defer c.Close(ctx)
			found, err := identify(ctx, c)
			if err != nil || found.Timeline == 0 {
				return
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if !l.begun && (l.newest.System == "" || l.newest.System == found.System && l.newest.Timeline < found.Timeline) {
				l.newest = found
			}
		})
	}
	all.Wait()
}

func (l *Lineage) hasBegun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begun
}

func identify(ctx context.Context, c *pgconn.PgConn) (found server, err error) {
	found.System, err = ask(ctx, c, `SELECT system_identifier::text FROM pg_control_system()`)
	if err != nil {
		return found, err
	}
	// Not that of the last checkpoint, because for some minutes it is the timeline before the promotion.
	segment, err := ask(ctx, c, `SELECT CASE WHEN pg_is_in_recovery() THEN '' ELSE pg_walfile_name(pg_current_wal_lsn()) END`)
	if err == nil && segment != "" {
		found.Timeline, err = strconv.ParseUint(segment[:min(8, len(segment))], 16, 64)
	}
	return found, err
}

func (l *Lineage) check(ctx context.Context, c *pgconn.PgConn) error {
	found, err := identify(ctx, c)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if isBroken(err) || ctx.Err() != nil {
			return err
		}
		if !l.hidden {
			l.hidden = true
			l.log.Warn("PostgreSQL does not show which server it is, so a failover back to an outdated one cannot be noticed", "error", err)
		}
		return nil
	}
	if err := l.compare(found); err != nil {
		if now := time.Now(); now.After(l.reports) {
			l.reports = now.Add(reportPause)
			l.log.Error("a connection to another PostgreSQL server was refused", "error", err)
		}
		return err
	}
	if !l.begun && l.kept.System != "" && l.kept.System != found.System {
		l.log.Warn("the database is on another PostgreSQL server than at the last start", "file", l.file)
	}
	l.begun = true
	if found.System != l.newest.System || found.Timeline > l.newest.Timeline {
		l.newest = found
	}
	if l.kept != l.newest {
		l.kept = l.newest
		l.keep()
	}
	return nil
}

// compare returns an error if a server has not the newest data. A start may lead to another system: the
// database was restored or copied there. The caller must hold mu.
func (l *Lineage) compare(found server) error {
	same := found.System == l.newest.System
	switch {
	case l.begun && !same:
		return fmt.Errorf("%w: this is another PostgreSQL server (system identifier %s) than the one that this process uses (%s); to move the database, stop the service first", errRefused, found.System, l.newest.System)
	case same && found.Timeline != 0 && found.Timeline < l.newest.Timeline:
		deliberate := ""
		if l.file != "" {
			deliberate = fmt.Sprintf(". If a backup was restored deliberately, stop the service, remove %s and start again", l.file)
		}
		return fmt.Errorf("%w: this PostgreSQL server is on timeline %d, but the service has used timeline %d: it is an old primary, without the changes since the failover. Make it a standby of the new primary (pg_rewind)%s",
			errRefused, found.Timeline, l.newest.Timeline, deliberate)
	}
	return nil
}

// keep stores the newest server durably. A directory that cannot be written is reported: the next start
// then does not know the server. A missing one is not made: on PostgreSQL a service needs none. The
// caller must hold mu.
func (l *Lineage) keep() {
	if l.file == "" {
		return
	}
	content, err := json.Marshal(l.newest)
	if err == nil {
		err = ReplaceFile(l.file, string(content)+"\n")
	}
	if errors.Is(err, os.ErrNotExist) {
		l.log.Info("there is no data directory, so the next start does not know this PostgreSQL server", "file", l.file)
	} else if err != nil {
		l.log.Warn("the PostgreSQL server cannot be kept for the next start", "file", l.file, "error", err)
	}
}

// ask returns the value of a query with one row and one column; "" for NULL.
func ask(ctx context.Context, c *pgconn.PgConn, query string, args ...string) (string, error) {
	values := make([][]byte, len(args))
	for i, a := range args {
		values[i] = []byte(a)
	}
	r := c.ExecParams(ctx, query, values, nil, nil, nil).Read()
	if r.Err != nil || len(r.Rows) != 1 || len(r.Rows[0]) != 1 {
		return "", r.Err
	}
	return string(r.Rows[0][0]), nil
}

// checkParameters returns an error if a parameter that the address names is not in force, because a
// pooler may drop it, and without its search_path a service would use the tables of another one.
func checkParameters(ctx context.Context, c *pgconn.PgConn, asked map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		got, err := ask(ctx, c, `SELECT current_setting($1, true)`, name)
		if err != nil {
			return err
		}
		if got == asked[name] {
			continue
		}
		// PostgreSQL writes a value in its own form, such as "30s" for 30000. The setting ends with
		// the statement. Some parameters cannot be set later; those are as they were written.
		form, err := ask(ctx, c, `SELECT set_config($1, $2, true)`, name, asked[name])
		if err != nil && (isBroken(err) || ctx.Err() != nil) {
			return err
		}
		if err == nil && got == form {
			continue
		}
		return fmt.Errorf("%w: the database address sets %s to %q, but it is %q: a pooler dropped it (ignore_startup_parameters of PgBouncer). Connect directly, or remove it from the address and set it with ALTER ROLE … SET %s", errRefused, name, asked[name], got, name)
	}
	return nil
}

// parametersOf returns the parameters that an address sets, those in its options as well. It leaves out
// the name of the application, which poolers change on purpose.
func parametersOf(c *pgx.ConnConfig) map[string]string {
	asked := map[string]string{}
	// A backslash keeps the space after it in an option.
	words := strings.FieldsFunc(strings.NewReplacer(`\\`, `\\`, `\ `, "\x00").Replace(c.RuntimeParams["options"]), func(r rune) bool { return strings.ContainsRune(" \t\n", r) })
	for i := 0; i < len(words); i++ {
		word, long := strings.CutPrefix(words[i], "--")
		if !long {
			var short bool
			if word, short = strings.CutPrefix(word, "-c"); !short {
				continue
			}
			if word == "" && i+1 < len(words) {
				i++
				word = words[i]
			}
		}
		if name, value, ok := strings.Cut(word, "="); ok {
			asked[strings.ReplaceAll(name, "-", "_")] = strings.NewReplacer("\x00", " ", `\\`, `\`).Replace(value)
		}
	}
	maps.Copy(asked, c.RuntimeParams)
	delete(asked, "options")
	delete(asked, "application_name")
	return asked
}
