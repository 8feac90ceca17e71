package payment

// KillAt makes the sales end at a step, as if the process had died there; "" for never.
func (s *Sales) KillAt(step string) {
	s.step = func(name string) error {
		if name == step {
			return errKilled
		}
		return nil
	}
}
