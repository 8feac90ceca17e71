//go:build !linux

package http1

import "stoa/internal/eventloop"

// An ownSocket is never open here, where there are no loops.
type ownSocket struct{}

func (c *conn) toOwn()        {}
func (c *conn) fromOwn() bool { return true }

func (s *ownSocket) open() bool   { return false }
func (s *ownSocket) close() error { return nil }
func (s *ownSocket) interrupt()   {}

func (s *ownSocket) read(*eventloop.Task, []byte) (int, error) { return 0, nil }
