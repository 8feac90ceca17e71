package stoa

import "time"

// An Account pays for calls and owns everything else: keys, spaces, agents.
type Account struct {
	ID             string    `db:"id"`
	Name           string    `db:"name"`
	Email          string    `db:"email"`
	Plan           string    `db:"plan"` // a [Plan]'s ID
	Suspended      bool      `db:"suspended"`
	DefaultSpaceID string    `db:"default_space_id"` // empty until spaces exist
	CreatedAt      time.Time `db:"created_at"`
}

// A Plan has the limits of an account. Plans are configuration. A zero means no limit.
type Plan struct {
	ID                   string
	Name                 string
	GatedModels          bool // may use models marked gated
	RequestsPerMinute    int  // limit of each key
	ConcurrentPerKey     int  // maximum number of calls in flight
	ConcurrentPerAccount int  // maximum number of calls in flight
	ActiveSessions       int

	RequestsPerMinutePerAccount int // limit of all keys together, because an account can create more keys

	Included Credits
}

// Allows reports whether an account on this plan may use the model.
func (p Plan) Allows(m Model) bool { return p.GatedModels || !m.Gated }
