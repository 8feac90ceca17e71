package api_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"stoa/internal/base/contract"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// TestTheDoctorTriesANewConnection: the connections that a service has work on when PostgreSQL, or a pooler before
// it, gets settings with which it could not start.
func TestTheDoctorTriesANewConnection(t *testing.T) {
	t.Parallel()
	home := storetest.Postgres(t)
	c := apitest.Start(t, apitest.Config{Home: &home, Idle: true}).Client(t)
	stores := func() contract.DiagnosisCheck {
		t.Helper()
		var d contract.Diagnosis
		c.Want(200, "GET", "/api/v1/doctor", nil).JSON(&d)
		return d.Checks[0]
	}
	if found := stores(); found.Name != "store" || found.Status != "ok" {
		t.Errorf("%+v", found)
	}
	admin, err := pgx.Connect(t.Context(), home.Config.PostgresURL)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	var name string
	if err := admin.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec(t.Context(), "ALTER DATABASE "+pgx.Identifier{name}.Sanitize()+" SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	if found := stores(); found.Status != "attention" || !strings.HasPrefix(found.Summary, "A new connection to PostgreSQL cannot be used: this PostgreSQL role or database is read-only") {
		t.Errorf("%+v", found)
	}
}
