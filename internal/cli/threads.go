package cli

import "runtime"

// leastThreads is how many threads run Go code (GOMAXPROCS) at least, on machines
// with fewer processors. With more threads than processors the system shares the
// processors out, in pieces of some 3 ms and those who waited first; Go lets each
// goroutine run for up to 10 ms, so that on two processors the calls of one caller
// waited behind the large bodies of another.
// See docs/decisions/0031-bounds-of-connections-and-bodies.md.
const leastThreads = 4

// threadsFor returns GOMAXPROCS for a machine with so many processors, where Go's
// default is current. A default below the number of processors is a limit that was
// set for the container, beyond which the system would stop all threads for a while;
// it stays.
func threadsFor(current, processors int) int {
	if current < processors {
		return current
	}
	return max(current, leastThreads)
}

// setThreads applies threadsFor.
func setThreads() {
	current := runtime.GOMAXPROCS(0)
	if n := threadsFor(current, runtime.NumCPU()); n != current {
		runtime.GOMAXPROCS(n)
	}
}
