package cli_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestNothingLargeIsInitialized limits what packages allocate before main, because each process of the program pays
// for it: the service at rest, every command, and each child that reads a document.
func TestNothingLargeIsInitialized(t *testing.T) {
	t.Parallel()
	const (
		most    = 8 << 20 // bytes of all packages; 5.1 MB when this was written
		mostOwn = 1 << 20 // bytes of a package of this module
	)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), program, "-test.run=^$")
	c.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sum, seen := 0, false
	for line := range strings.Lines(string(out)) { // init NAME @0.5 ms, 0.02 ms clock, 3008 bytes, 21 allocs
		words := strings.Fields(line)
		if len(words) != 11 || words[0] != "init" {
			continue
		}
		n, err := strconv.Atoi(words[7])
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		sum += n
		name := words[1]
		seen = seen || strings.HasPrefix(name, "stoa/")
		if strings.HasPrefix(name, "stoa/") && n > mostOwn || name == "stoa/internal/base/extract" && n > 64<<10 {
			t.Errorf("%s allocates %d bytes before main; do so when they are first needed", name, n)
		}
	}
	if !seen || sum > most {
		t.Errorf("all packages allocate %d bytes before main, and %d are the most:\n%s", sum, most, out)
	}
}
