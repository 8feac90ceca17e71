package cli

import (
	"strings"
	"testing"

	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
)

// TestTheDoctorsExitCodeSaysWhatItFound: 0 for nothing, 1 for something, in both forms, 2
// for a wrong command.
func TestTheDoctorsExitCodeSaysWhatItFound(t *testing.T) {
	t.Parallel()
	machine := api.Machine{FreeDisk: 10 << 30, Disk: 20 << 30, OpenFiles: 4096, NeedsOf: 1024}
	h := apitest.Start(t, apitest.Config{Server: func(s *api.Server) { s.Doctor.Machine = func() api.Machine { return machine } }})
	for _, c := range []struct {
		free   uint64
		args   []string
		code   int
		out    string
		errOut string
	}{
		{10 << 30, nil, exitDone, "ok         disk: 10240 MiB", ""},
		{10 << 30, []string{"--json"}, exitDone, `"status":"ok"`, ""},
		{1 << 20, nil, exitFailed, "attention  disk: 1 MiB", "1 check needs attention"},
		{1 << 20, []string{"--json"}, exitFailed, `"status":"attention"`, "1 check needs attention"},
		{1 << 20, []string{"--jq", `.checks[] | select(.status != "ok").name`}, exitFailed, "disk", "1 check needs attention"},
		{1 << 20, []string{"more"}, exitUsage, "", "more"},
	} {
		machine.FreeDisk = c.free
		out, errOut, code := run(t, h, "", append([]string{"doctor"}, c.args...)...)
		if code != c.code || !strings.Contains(strings.ReplaceAll(out, `": "`, `":"`), c.out) || !strings.Contains(errOut, c.errOut) {
			t.Errorf("%v: %d %s %s", c.args, code, out, errOut)
		}
	}
}
