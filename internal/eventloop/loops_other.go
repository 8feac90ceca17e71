//go:build !linux

package eventloop

import "context"

// Loops are none here.
type Loops struct{}

// New returns loops that call functions as they are.
func New() *Loops { return nil }

// Run calls f.
func (l *Loops) Run(ctx context.Context, f func(context.Context)) { f(ctx) }

// Close does nothing.
func (l *Loops) Close() {}

// A Task does not exist here.
type Task struct{}

// OnLoop is false.
func (t *Task) OnLoop() bool { return false }

// Leave does nothing.
func (t *Task) Leave() {}

// Wait is never called, since there are no tasks.
func (t *Task) Wait(fd int) {}
