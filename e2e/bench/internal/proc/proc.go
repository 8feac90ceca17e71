//go:build linux

// Package proc starts processes and reads their usage from the system: processor time,
// memory, system calls, descriptors, threads. It does not depend on the processes, so every
// program is measured the same way. It requires Linux.
//
// Start at [Start] and [Process.Usage].
package proc

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Process is a started program.
type Process struct {
	cmd  *exec.Cmd
	ends chan struct{}
	err  error
}

// A Command describes a program to start.
type Command struct {
	Path string
	Args []string
	Env  []string
	Log  string // file for its standard error
	// Ready returns an address from a line of standard output, and whether the
	// line has one.
	Ready func(line string) (address string, ok bool)
}

// startTimeout limits the wait for a process to be ready.
const startTimeout = time.Minute

// Start starts a process and returns what its Ready returned. The caller stays on
// its thread while the process runs: see PR_SET_PDEATHSIG.
func Start(c Command) (*Process, string, error) {
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, "", err
	}
	defer log.Close()
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env, cmd.Stderr = c.Env, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	p := &Process{cmd: cmd, ends: make(chan struct{})}
	found := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if address, ok := c.Ready(lines.Text()); ok {
				select {
				case found <- address:
				default:
				}
			}
		}
		p.err = cmd.Wait()
		close(p.ends)
	}()
	select {
	case address := <-found:
		return p, address, nil
	case <-p.ends:
		return nil, "", fmt.Errorf("%s ended at its start (%v): %s", c.Path, p.err, Tail(c.Log))
	case <-time.After(startTimeout):
		return nil, "", errors.Join(fmt.Errorf("%s is not ready after %v: %s", c.Path, startTimeout, Tail(c.Log)), p.Stop())
	}
}

// Listening starts a program that prints no address and waits until it accepts connections at address.
// SIGTERM ends it and what it has started.
func Listening(c Command, address string) (*Process, error) {
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &Process{cmd: exec.Command(c.Path, c.Args...), ends: make(chan struct{})}
	p.cmd.Env, p.cmd.Stderr = c.Env, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ends)
	}()
	for begin := time.Now(); time.Since(begin) < startTimeout; {
		select {
		case <-p.ends:
			return nil, fmt.Errorf("%s ended at its start (%v): %s", c.Path, p.err, Tail(c.Log))
		case <-time.After(20 * time.Millisecond):
		}
		if conn, err := net.Dial("tcp", address); err == nil {
			return p, conn.Close()
		}
	}
	return nil, errors.Join(fmt.Errorf("%s does not listen on %s after %v: %s", c.Path, address, startTimeout, Tail(c.Log)), p.Stop())
}

// Load returns the load of the machine: the mean numbers of tasks that wanted to run in the last
// minute, five minutes and fifteen.
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

// Tail returns the end of a log.
func Tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// PID returns the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// stopTimeout is the time between SIGTERM and SIGKILL.
const stopTimeout = 20 * time.Second

// Stop ends the process and waits for it.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ends:
		return nil
	case <-time.After(stopTimeout):
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ends
	return nil
}

// Usage is the consumption of a process since its start.
type Usage struct {
	CPU   time.Duration // user and system, of all threads, also of ended ones
	Calls int64         // read and write system calls, including those on sockets
}

// Usage returns what the process has used.
func (p *Process) Usage() (u Usage, err error) {
	cpu, err1 := cpuTime(p.PID())
	fields, err2 := numbers(fmt.Sprintf("/proc/%d/io", p.PID()))
	return Usage{CPU: cpu, Calls: fields["syscr"] + fields["syscw"]}, errors.Join(err1, err2)
}

// cpuTime reads the processor clock of a process, which the system keeps to the
// nanosecond: /proc/PID/stat has hundredths of a second. The clock's number is that
// of clock_getcpuclockid(3).
func cpuTime(pid int) (time.Duration, error) {
	const sched = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &t); err != nil {
		return 0, fmt.Errorf("the processor clock of %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// children returns the ids of the children of a process.
func children(pid int) (pids []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is valid
	for _, t := range tasks {
		text, err := os.ReadFile(t)
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(text)) {
			if n, err := strconv.Atoi(field); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// WaitAlone waits until a process that has just started has no children, at most 20 s, because Stoa begins with a try of its
// readers of documents, which occupies a processor.
func (p *Process) WaitAlone() {
	for range 20 {
		time.Sleep(time.Second)
		if len(children(p.PID())) == 0 {
			return
		}
	}
}

// Family returns the processor time of a process and its children, ended ones
// included, to a hundredth of a second. The process need not have been started
// here.
func Family(pid int) (sum time.Duration, err error) {
	for _, p := range append(children(pid), pid) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
		if err != nil {
			if p == pid {
				return 0, err
			}
			continue // a child has ended; its parent has its time
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		const user, last = 11, 15 // utime, stime, and those of children that were waited for
		if len(fields) < last {
			return 0, fmt.Errorf("/proc/%d/stat has %d fields", p, len(fields))
		}
		for _, f := range fields[user:last] {
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * (time.Second / 100)
		}
	}
	return sum, nil
}

// Memory returns the resident memory of the process in bytes.
func (p *Process) Memory() (int64, error) {
	fields, err := numbers(fmt.Sprintf("/proc/%d/status", p.PID()))
	return fields["VmRSS"] << 10, err
}

// numbers reads a file of lines of a name, a colon and a number.
func numbers(path string) (map[string]int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if !ok || len(fields) == 0 {
			continue
		}
		if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			out[name] = n
		}
	}
	return out, nil
}

// RaiseFileLimit raises the soft limit of open files to the hard one and returns
// it. Processes that are started later inherit it.
func RaiseFileLimit() (int, error) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, err
	}
	l.Cur = l.Max
	err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
	return int(l.Cur), err
}
