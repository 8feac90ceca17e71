package stoa

import "testing"

func TestUnescapedPasswordsAreFound(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"postgres://u:p@ss@h/d": true, "postgres://u:p@ss/w:rd#1@h/d": true, "postgres://u:p/w@h:5432/d": true, "postgres://u:p?w@h/d": true,
		"postgres://u:p#w@h/d": true, "postgres://u:12#w@h/d": true, "postgres://u:12/w@h/d": true, "postgres://u:12?w@h/d?sslmode=disable": true,
		"postgres://u:100%@h/d": true, "postgres://u:%zz@h/d": true, "postgres://u:p%4@h/d": true, "postgres://u:p/w": true,
		"postgres://u:p@h/d": false, "postgres://u:w:rd@h/d": false, "postgres://h/d": false, "postgres:///d?host=/run/postgresql": false,
		"postgres://u:p%40ss%2Fw%3Ard%231%25@h:5432/d?sslmode=verify-full": false, "postgres://u@a:1,b:2,[::1]:3/d?target_session_attrs=read-write": false,
		"postgres://[::1]/d": false, "postgres://[fe80::1]:5432/d": false, "postgres://h:5432": false, "postgres://u:p@h/d?sslrootcert=/a@b/ca.pem": false,
		"postgres://u:p@h/d?options=-c%20search_path%3Da": false, "postgres:///d?user=u@corp&host=h": false, "": false,
	} {
		if got := IsUnescaped(address); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}
