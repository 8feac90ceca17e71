package cli

import "testing"

func TestSmallMachinesHaveFourThreads(t *testing.T) {
	for _, tt := range []struct{ current, processors, want int }{
		{1, 1, 4},
		{2, 2, 4},
		{3, 3, 4},
		{4, 4, 4},
		{16, 16, 16},
		{2, 64, 2},
		{1, 2, 1}, // a limit of the container
	} {
		if got := threadsFor(tt.current, tt.processors); got != tt.want {
			t.Errorf("%d of %d processors: %d threads, want %d", tt.current, tt.processors, got, tt.want)
		}
	}
}
