package signin

import "time"

// Age makes the known discovery document of a provider older.
func (s *Server) Age(name string, by time.Duration) {
	p := s.providers[name]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = p.read.Add(-by)
}
