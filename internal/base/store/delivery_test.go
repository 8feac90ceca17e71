package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

func TestOldDeliveriesAreRemoved(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	st := storetest.New(t).Open()
	account := storetest.Account(t, st, 0)
	var kept, gone stoa.Webhook
	write := func(fn func(tx *store.Tx) error) {
		t.Helper()
		if err := st.Write(ctx, fn); err != nil {
			t.Fatal(err)
		}
	}
	write(func(tx *store.Tx) (err error) {
		for _, w := range []*stoa.Webhook{&kept, &gone} {
			if *w, err = tx.Operations().InsertWebhook(ctx, stoa.Webhook{AccountID: account.ID, URL: "https://example.com", Events: []string{"*"}}); err != nil {
				return err
			}
		}
		return nil
	})
	const day = 24 * time.Hour
	for i, row := range []struct {
		status store.DeliveryStatus
		age    time.Duration
	}{
		{store.DeliveryDelivered, store.DeliveredKept - time.Hour},
		{store.DeliveryDelivered, store.DeliveredKept + time.Hour},
		{store.DeliveryFailed, store.DeliveriesKept - time.Hour},
		{store.DeliveryFailed, store.DeliveriesKept + time.Hour},
		{store.DeliveryHeld, 29 * day},
		{store.DeliveryHeld, 31 * day},
		{store.DeliveryPending, 31 * day},
	} {
		write(func(tx *store.Tx) error {
			tx.Now = tx.Now.Add(-row.age)
			if err := tx.Operations().InsertEvent(ctx, store.NewEvent{ID: stoa.NewID("evt"), AccountID: account.ID, Type: fmt.Sprint(i)}); err != nil {
				return err
			}
			list, _, err := tx.Operations().Deliveries(ctx, account.ID, kept.ID, store.DeliveryFilter{Type: fmt.Sprint(i)}, store.Page{})
			if err != nil || len(list) != 1 {
				return fmt.Errorf("%d rows: %w", len(list), err)
			}
			list[0].Status = row.status
			_, err = tx.Operations().SaveDelivery(ctx, list[0], "")
			return err
		})
	}
	write(func(tx *store.Tx) error { return tx.Operations().DeleteWebhook(ctx, account.ID, gone.ID) })
	for _, want := range []int64{3, 3, 3, 1, 0} { // 7 of the deleted one, 3 of the other
		write(func(tx *store.Tx) error {
			n, err := tx.Operations().PurgeDeliveries(ctx, account.ID, 3)
			if n != want {
				t.Errorf("%d are removed, want %d", n, want)
			}
			return err
		})
	}
	if err := st.Read(ctx, func(tx *store.Tx) error {
		list, _, err := tx.Operations().Deliveries(ctx, account.ID, kept.ID, store.DeliveryFilter{}, store.Page{Asc: true})
		got := ""
		for _, d := range list {
			got += d.Type
		}
		if got != "6240" {
			t.Errorf("these are left: %s", got)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAccountsHaveSoManyWebhooks(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	st := storetest.New(t).Open()
	account := storetest.Account(t, st, 0)
	insert := func() (w stoa.Webhook, err error) {
		err = st.Write(ctx, func(tx *store.Tx) (err error) {
			w, err = tx.Operations().InsertWebhook(ctx, stoa.Webhook{AccountID: account.ID, Events: []string{"*"}})
			return err
		})
		return w, err
	}
	var all []stoa.Webhook
	for range store.MaxWebhooks {
		w, err := insert()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	if _, err := insert(); stoa.CodeOf(err) != stoa.CodeLimitReached {
		t.Errorf("one more: %v", err)
	}
	if err := st.Write(ctx, func(tx *store.Tx) error { return tx.Operations().DeleteWebhook(ctx, account.ID, all[7].ID) }); err != nil {
		t.Fatal(err)
	}
	if _, err := insert(); err != nil { // its mark is free again
		t.Error(err)
	}
	if err := st.Write(ctx, func(tx *store.Tx) error {
		return tx.Operations().InsertEvent(ctx, store.NewEvent{ID: stoa.NewID("evt"), AccountID: account.ID, Type: "x"})
	}); err != nil { // the ids of its deliveries differ
		t.Error(err)
	}
}
