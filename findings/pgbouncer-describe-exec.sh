#!/usr/bin/env bash
# PgBouncer 1.18.0 (Debian 12) in transaction mode with pgx 5.12.0 and `default_query_exec_mode=describe_exec`: queries
# of several clients return the rows of another client's statement, mostly without an error. The mode describes a statement
# in one round trip and executes it in the next, and PgBouncer may give each to another connection of the server, whose
# unnamed statement is another client's. The modes `exec` and `simple_protocol` are right; the default fails loudly.
# Seen on 2026-11-28: describe_exec: wrong answers (3,330 of 4,000, and 2 errors); exec: right
# The programs are taken from the system (Debian: apt-get install pgbouncer postgresql); PostgreSQL runs as its user.
set -euo pipefail
export PATH=$PATH:/usr/sbin:$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
command -v pgbouncer >/dev/null && command -v initdb >/dev/null || { echo "skipped: pgbouncer or PostgreSQL is not installed"; exit 0; }
as=()
[[ $(id -u) != 0 ]] || as=(setpriv --reuid postgres --regid postgres --clear-groups)
temp=$(mktemp -d)
cd "$temp"
mkdir data && chmod 755 . && { [[ $(id -u) != 0 ]] || chown postgres . data; }
trap 'kill "${bouncer:-}" 2>/dev/null || true; "${as[@]}" pg_ctl -D "$temp/data" -m immediate -w stop >/dev/null 2>&1 || true; rm -rf "$temp"' EXIT
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
server=$(free) port=$(free)
"${as[@]}" initdb -D data -U admin -A trust --locale=C --no-sync >/dev/null
"${as[@]}" pg_ctl -D data -l log -w -o "-c listen_addresses=127.0.0.1 -c port=$server -c unix_socket_directories= -c fsync=off" start >/dev/null
printf '"admin" ""\n' >users
printf '[databases]\n* = host=127.0.0.1 port=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %s\nunix_socket_dir =\nauth_type = trust\nauth_file = %s/users\npool_mode = transaction\ndefault_pool_size = 4\n' "$server" "$port" "$temp" >ini
chmod 644 users ini
"${as[@]}" pgbouncer "$temp/ini" >bouncer 2>&1 &
bouncer=$!
until (: <>/dev/tcp/127.0.0.1/"$port") 2>/dev/null; do kill -0 "$bouncer"; done
pgbouncer --version | sed -n 1p
mkdir go && cd go
export GOFLAGS=
go mod init finding 2>/dev/null
go get github.com/jackc/pgx/v5@v5.12.0 2>/dev/null
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

func main() {
	ctx := context.Background()
	for _, mode := range []string{"describe_exec", "exec"} {
		var wrong, failed atomic.Int64
		var clients sync.WaitGroup
		for n := range 8 {
			clients.Go(func() {
				c, err := pgx.Connect(ctx, os.Args[1]+"&default_query_exec_mode="+mode)
				if err != nil {
					panic(err)
				}
				defer c.Close(ctx)
				for range 500 {
					// Each client asks its own question, whose answer is its number.
					var got int
					if err := c.QueryRow(ctx, fmt.Sprintf("SELECT %d + $1::int", n), 0).Scan(&got); err != nil {
						failed.Add(1)
					} else if got != n {
						wrong.Add(1)
					}
				}
			})
		}
		clients.Wait()
		fmt.Fprintf(os.Stderr, "%s: %d of 4000 wrong, %d errors\n", mode, wrong.Load(), failed.Load())
		answers := "right"
		if wrong.Load() > 0 {
			answers = "wrong answers"
		}
		fmt.Printf("%s: %s; ", mode, answers)
	}
}
GO
seen=$(go run . "postgres://admin@127.0.0.1:$port/postgres?sslmode=disable")
echo "$seen"
[[ $seen == "describe_exec: wrong answers; exec: right; " ]]
