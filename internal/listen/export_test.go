package listen

// Parked returns how many connections are parked.
func (l *Listener) Parked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.parked)
}
