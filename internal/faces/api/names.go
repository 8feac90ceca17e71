package api

import (
	"context"

	"stoa/internal/base/store"
)

// names finds the names of the objects whose ids a reply contains. It collects them first, so that one query reads each
// kind of object.
type names struct {
	accountID string              // whose objects they are; empty means of any, for operators
	operator  bool                // the caller is an operator
	ids       map[string][]string // by kind; see [store.NamedAgents]
	found     map[string]map[string]string
}

func namesOf(accountID string) *names { return &names{accountID: accountID} }

// add adds an id. Without an id, or a kind that has names, it does nothing.
func (n *names) add(kind, id string) {
	if kind == "" || id == "" {
		return
	}
	if n.ids == nil {
		n.ids = map[string][]string{}
	}
	n.ids[kind] = append(n.ids[kind], id)
}

// read finds the names of the ids that were added. It does nothing after an error of the
// transaction, which it returns.
func (n *names) read(ctx context.Context, tx *store.Tx, err error) error {
	n.found = map[string]map[string]string{}
	for kind, ids := range n.ids {
		if err == nil {
			n.found[kind], err = tx.Work().Names(ctx, n.accountID, kind, ids)
		}
	}
	return err
}

func (n *names) load(ctx context.Context, st *store.Store, err error) error {
	if err != nil {
		return err
	}
	return st.Read(ctx, func(tx *store.Tx) error { return n.read(ctx, tx, nil) })
}

func (n *names) of(kind, id string) string { return n.found[kind][id] }
