package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestThePagesOfTheStartAreReleased checks that fewer pages of the program are resident afterwards.
func TestThePagesOfTheStartAreReleased(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	resident := func() (kb int) {
		maps, err := os.ReadFile("/proc/self/smaps")
		if err != nil {
			t.Fatal(err)
		}
		of := false
		for line := range strings.Lines(string(maps)) {
			var from, to uintptr
			var perms string
			var n int
			if k, _ := fmt.Sscanf(line, "%x-%x %4s", &from, &to, &perms); k == 3 {
				of = strings.HasSuffix(strings.TrimSpace(line), program) && perms == "r-xp"
			} else if k, _ := fmt.Sscanf(line, "Rss: %d kB", &n); k == 1 && of {
				kb += n
			}
		}
		return kb
	}
	before := resident()
	releaseProgram()
	if after := resident(); after == 0 || after >= before*3/4 {
		t.Errorf("%d KB of the code are resident, %d before", after, before)
	}
}
