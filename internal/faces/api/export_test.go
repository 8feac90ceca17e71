package api

import "stoa/internal/base/rest"

// RoutesForTest maps each pattern of the table to the scope it needs, or
// "public".
func RoutesForTest() map[string]string {
	routes := map[string]string{}
	for _, rt := range new(Server).table() {
		routes[rt.Pattern] = rt.Scope
		if !rt.Keyed {
			routes[rt.Pattern] = "public"
		}
	}
	return routes
}

// BodyBytes is how many bytes of request bodies are held in memory.
func (s *Server) BodyBytes() int64 {
	_, n := s.InFlight()
	return n
}

// AuditRules returns the patterns that the audit log records, and the exempt ones.
func (s *Server) AuditRules() (audited map[string]*rest.Audited, exempt map[string]string) {
	return s.audited(), notAudited
}
