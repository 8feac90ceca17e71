// Package eventloop runs functions that wait for slow connections most of the time on
// few threads, each of which waits for many connections at once.
//
// A function that is started by [Loops.Run] is an ordinary one: it may block as it
// likes, and its caller waits with it. Where it would wait for a connection that brings
// little now and then, it calls [Task.Wait], which hands it to a loop: when the
// connection can be read, the thread of the loop itself goes on with the function, up to
// its next wait. That saves what a goroutine costs that is woken for every few bytes: the
// way through the scheduler, another thread that is woken to look for more work, and the
// read that finds nothing before each wait. While a function is on a loop it must not
// block, since the other functions of the loop would wait as well; [Task.Leave] takes it
// back to the goroutine of its caller.
//
// There are loops on Linux. Elsewhere Run just calls the function.
// See docs/decisions/0058-slow-streams-share-a-thread.md.
package eventloop

import (
	"context"
	"fmt"
)

type taskKey struct{}

// Of returns the task of the function that [Loops.Run] gave ctx to; nil if there is
// none. Of a nil task only OnLoop and Leave may be called: it is never on a loop.
func Of(ctx context.Context) *Task {
	t, _ := ctx.Value(taskKey{}).(*Task)
	return t
}

// A Panic is what [Loops.Run] panics with when its function did, unless that was with
// [net/http.ErrAbortHandler], which stays as it is.
type Panic struct {
	Value any
	Stack []byte // of the function
}

// Error implements error.
func (p *Panic) Error() string { return fmt.Sprint(p.Value) }
