package api

// RoutesForTest maps each pattern of the table to the scope it needs, or
// "public".
func RoutesForTest() map[string]string {
	routes := map[string]string{}
	for _, rt := range table() {
		routes[rt.pattern] = rt.scope
		if rt.access != byKey {
			routes[rt.pattern] = "public"
		}
	}
	return routes
}

// BodyBytes is how many bytes of request bodies are held in memory.
func (s *Server) BodyBytes() int64 {
	s.bodies.mu.Lock()
	defer s.bodies.mu.Unlock()
	return s.bodies.used
}
