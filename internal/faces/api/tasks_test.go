package api_test

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/agents/scheduler"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// A setClock is the clock of a scheduler, set by the test.
type setClock struct {
	mu sync.Mutex
	at time.Time
}

func (c *setClock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }

func (c *setClock) add(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.at = c.at.Add(d) }

// atNoon starts a service whose schedules run on a clock that the test sets; it is noon
// of the first of March 2026 there. The test triggers its runs.
func atNoon(t *testing.T, cfg apitest.Config) (author, *setClock) {
	t.Helper()
	clock := &setClock{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	more := cfg.Schedules
	cfg.Schedules = func(c *scheduler.Config) {
		c.Now = clock.now
		if more != nil {
			more(c)
		}
	}
	cfg.Idle = true
	h := start(t, cfg)
	return newAuthor(t, h, h.Client(t), nil), clock
}

func tick(t *testing.T, a author) {
	t.Helper()
	if _, _, err := a.h.Scheduler.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
}

var daily = object{"type": "cron", "expression": "0 9 * * *", "timezone": "Europe/Berlin"}

func newTask(t *testing.T, a author, more object) (contract.ScheduledTask, string) {
	t.Helper()
	body := object{"name": "Report", "message": "say: done", "schedule": daily}
	for k, v := range more {
		body[k] = v
	}
	var task contract.ScheduledTask
	r := a.Want(201, "POST", a.agent+"/scheduled-tasks", body).JSON(&task)
	path := a.agent + "/scheduled-tasks/" + task.ID
	if r.Header.Get("Location") != path {
		t.Errorf("the task is at %q", r.Header.Get("Location"))
	}
	return task, path
}

func runsOf(t *testing.T, a author, path string) (lines []string) {
	t.Helper()
	var list contract.TaskRunList
	a.Want(200, "GET", path+"/runs?order=asc", nil).JSON(&list)
	for _, r := range list.Data {
		lines = append(lines, strings.TrimSpace(fmt.Sprint(r.ScheduledFor, " ", r.Trigger, " ", r.Status, " ", orNone(r.SkipReason))))
	}
	return lines
}

func TestATaskIsMadeReadChangedAndDeleted(t *testing.T) {
	t.Parallel()
	a, clock := atNoon(t, apitest.Config{})
	task, path := newTask(t, a, nil)
	if task.Status != "active" || !task.Enabled || task.Mode != "once" || task.SessionPolicy != "new" || task.MissedRunPolicy != "run_latest" || task.OverlapPolicy != "skip" ||
		task.CatchUpWindowSeconds != 3600 || task.PauseAfterFailures != 5 || orNone(task.NextRunAt).String() != "2026-03-02T08:00:00.000Z" || len(task.UpcomingRunsAt) != 5 || !task.LastRun.IsNull() {
		t.Errorf("the new task is %+v", task)
	}
	first := a.Want(200, "GET", path, nil)
	etag := first.Header.Get("ETag")
	a.With("If-None-Match", etag).Want(304, "GET", path, nil)

	var changed contract.ScheduledTask
	everything := object{
		"name": "Weekly", "message": "say: week", "schedule": object{"type": "interval", "everySeconds": 3600}, "mode": "chat",
		"startAt": "2026-03-01T12:30:00Z", "endAt": "2026-03-05T00:00:00Z", "maxRuns": 3, "enabled": true, "sessionPolicy": "reuse", "missedRunPolicy": "run_all",
		"catchUpWindowSeconds": 60, "overlapPolicy": "queue", "pauseAfterFailures": 0, "maxCreditsMicroPerRun": 1000,
	}
	r := a.With("If-Match", etag).Want(200, "PATCH", path, everything).JSON(&changed)
	if r.Header.Get("ETag") == etag {
		t.Error("the ETag stayed the same")
	}
	if changed.Name != "Weekly" || changed.Schedule.Type != "interval" || changed.SessionPolicy != "reuse" || changed.PauseAfterFailures != 0 ||
		orNone(changed.MaxCreditsMicroPerRun) != 1000 || len(changed.UpcomingRunsAt) != 3 || orNone(changed.NextRunAt).String() != "2026-03-01T12:30:00.000Z" {
		t.Errorf("the changed task is %+v", changed)
	}
	a.With("If-Match", etag).WantError(stoa.CodePrecondition, "PATCH", path, object{"name": "late"})
	a.With("If-Match", etag).WantError(stoa.CodePrecondition, "DELETE", path, nil)
	cleared := object{}
	for name := range everything {
		if !slices.Contains([]string{"name", "message", "schedule"}, name) {
			cleared[name] = nil
		}
	}
	cleared["schedule"] = daily
	var back contract.ScheduledTask
	a.With("If-Match", "*").Want(200, "PATCH", path, cleared).JSON(&back)
	back.Name, back.Message, back.UpdatedAt = task.Name, task.Message, task.UpdatedAt
	if diff := cmp.Diff(fmt.Sprintf("%+v", task), fmt.Sprintf("%+v", back)); diff != "" {
		t.Errorf("what is cleared is not as it was made:\n%s", diff)
	}

	// It runs, and its record changes with it.
	etag = a.Want(200, "GET", path, nil).Header.Get("ETag")
	clock.add(20*time.Hour + 3*time.Second)
	tick(t, a)
	var ran contract.ScheduledTask
	r = a.With("If-None-Match", etag).Want(200, "GET", path, nil).JSON(&ran)
	last := orNone(ran.LastRun)
	if last.Status != "queued" || last.Trigger != "schedule" || orNone(last.DelaySeconds) != 3 || ran.Counters.Started != 1 || orNone(ran.NextRunAt).String() != "2026-03-03T08:00:00.000Z" {
		t.Errorf("after its run it is %+v", ran)
	}
	a.Want(200, "POST", a.agent+"/sessions/"+orNone(last.SessionID)+"/cancel", nil)
	a.With("If-None-Match", r.Header.Get("ETag")).Want(200, "GET", path, nil)
	if diff := cmp.Diff([]string{"2026-03-02T08:00:00.000Z schedule cancelled"}, runsOf(t, a, path)); diff != "" {
		t.Error(diff)
	}
	a.With("If-Match", a.Want(200, "GET", path, nil).Header.Get("ETag")).Want(204, "DELETE", path, nil)
	a.With("If-Match", etag).WantError(stoa.CodeTaskNotFound, "DELETE", path, nil)
	a.WantError(stoa.CodeTaskNotFound, "DELETE", path, nil)
	for _, ask := range [][2]string{{"GET", path}, {"GET", path + "/runs"}, {"POST", path + "/pause"}, {"POST", path + "/resume"}, {"POST", path + "/run"}} {
		a.WantError(stoa.CodeTaskNotFound, ask[0], ask[1], nil)
	}
	a.WantError(stoa.CodeTaskNotFound, "PATCH", path, object{"name": "x"})
}

func TestATaskIsPausedAndRunByHand(t *testing.T) {
	t.Parallel()
	a, clock := atNoon(t, apitest.Config{})
	_, path := newTask(t, a, object{"schedule": object{"type": "interval", "everySeconds": 60}, "enabled": false})
	var task contract.ScheduledTask
	a.Want(200, "GET", path, nil).JSON(&task)
	if task.Status != "paused" || orNone(task.PauseReason) != "user" || !task.NextRunAt.IsNull() || len(task.UpcomingRunsAt) != 0 {
		t.Errorf("a task that was made paused is %+v", task)
	}
	clock.add(150 * time.Second)
	tick(t, a)
	once := a.With("Idempotency-Key", "one")
	var run, again contract.TaskRun
	r := once.Want(202, "POST", path+"/run", nil).JSON(&run)
	if run.Trigger != "manual" || run.Status != "queued" || r.Header.Get("Location") != a.agent+"/sessions/"+orNone(run.SessionID) {
		t.Errorf("the run is %+v", run)
	}
	var session contract.Session
	a.Want(200, "GET", r.Header.Get("Location"), nil).JSON(&session)
	if session.Trigger.Type != "schedule" || orNone(session.Trigger.ID) != run.ID {
		t.Errorf("its session was started by %+v", session.Trigger)
	}
	if r := once.Want(202, "POST", path+"/run", nil).JSON(&again); again.ID != run.ID || r.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("asked again it is %+v", again)
	}
	a.Want(200, "POST", path+"/resume", nil).JSON(&task)
	if task.Status != "active" || orNone(task.NextRunAt).String() != "2026-03-01T12:03:00.000Z" || task.Counters.Skipped != 2 {
		t.Errorf("the resumed task is %+v", task)
	}
	a.Want(200, "POST", path+"/pause", nil).JSON(&task)
	if task.Status != "paused" {
		t.Errorf("the paused task is %+v", task)
	}
	want := []string{"2026-03-01T12:01:00.000Z schedule skipped paused", "2026-03-01T12:02:00.000Z schedule skipped paused", "2026-03-01T12:02:30.000Z manual queued"}
	if diff := cmp.Diff(want, runsOf(t, a, path)); diff != "" {
		t.Error(diff)
	}
	// A session that is reused does one thing at a time.
	_, shared := newTask(t, a, object{"sessionPolicy": "reuse"})
	a.Want(202, "POST", shared+"/run", nil)
	a.WantError(stoa.CodeSessionBusy, "POST", shared+"/run", nil)
	// Credits are looked at first.
	poor := newAuthor(t, a.h, a.h.ClientWith(t, poorCustomer(t, a.h)), nil)
	_, path = newTask(t, poor, nil)
	poor.WantError(stoa.CodeQuota, "POST", path+"/run", nil)
}

func poorCustomer(t *testing.T, h *apitest.Service) string {
	t.Helper()
	var made contract.AccountWithKey
	h.Client(t).Want(201, "POST", "/api/v1/accounts", object{"name": "Poor"}).JSON(&made)
	return made.Key.Secret
}

func TestAPreviewStoresNothing(t *testing.T) {
	t.Parallel()
	a, _ := atNoon(t, apitest.Config{})
	var got contract.SchedulePreview
	a.Want(200, "POST", a.agent+"/scheduled-tasks/preview", object{
		"schedule": object{"type": "cron", "expression": "30 2 * * *", "timezone": "America/New_York"}, "startAt": "2026-03-07T12:00:00Z", "count": 2,
	}).JSON(&got)
	var lines []string
	for _, r := range got.Runs {
		lines = append(lines, strings.TrimSpace(fmt.Sprint(r.At, " ", r.LocalTime, " ", orNone(r.Adjustment))))
	}
	if diff := cmp.Diff([]string{"2026-03-08T07:00:00.000Z 2026-03-08T03:00:00-04:00 gap", "2026-03-09T06:30:00.000Z 2026-03-09T02:30:00-04:00"}, lines); diff != "" {
		t.Error(diff)
	}
	a.Want(200, "POST", a.agent+"/scheduled-tasks/preview", object{"schedule": daily, "maxRuns": 2, "endAt": "2027-01-01T00:00:00Z"}).JSON(&got)
	if len(got.Runs) != 2 {
		t.Errorf("two runs are previewed as %+v", got.Runs)
	}
	a.WantError(stoa.CodeAgentNotFound, "POST", "/api/v1/api-agents/agt_x/scheduled-tasks/preview", object{"schedule": daily})
	var list contract.ScheduledTaskList
	a.Want(200, "GET", a.agent+"/scheduled-tasks", nil).JSON(&list)
	if len(list.Data) != 0 {
		t.Errorf("there are tasks: %+v", list.Data)
	}
}

func TestWhatIsWrongWithAScheduleIsNamed(t *testing.T) {
	t.Parallel()
	a, _ := atNoon(t, apitest.Config{})
	_, path := newTask(t, a, nil)
	for _, tc := range []struct {
		schedule object
		code     stoa.Code
		param    string
	}{
		{object{"type": "cron", "expression": "0 25 * * *", "timezone": "UTC"}, stoa.CodeInvalidCron, "schedule.expression"},
		{object{"type": "cron", "expression": "", "timezone": "UTC"}, stoa.CodeInvalidCron, "schedule.expression"},
		{object{"type": "cron", "expression": "0 9 * * *", "timezone": "Europe/Atlantis"}, stoa.CodeInvalidTimezone, "schedule.timezone"},
		{object{"type": "cron", "expression": "0 9 * * *", "timezone": ""}, stoa.CodeInvalidTimezone, "schedule.timezone"},
		{object{"type": "cron", "expression": "0 9 * * *"}, stoa.CodeMissingParameter, "schedule.timezone"},
		{object{"type": "cron", "timezone": "UTC", "expression": nil}, stoa.CodeMissingParameter, "schedule.expression"},
		{object{"type": "interval", "everySeconds": 59}, stoa.CodeInvalidValue, "schedule.everySeconds"},
		{object{"type": "interval", "everySeconds": 60, "timezone": "UTC"}, stoa.CodeInvalidValue, "schedule.timezone"},
		{object{"type": "interval"}, stoa.CodeMissingParameter, "schedule.everySeconds"},
		{object{"type": "once", "runAt": "2026-03-01T11:59:59Z"}, stoa.CodeInvalidValue, "schedule.runAt"},
		{object{"type": "once"}, stoa.CodeMissingParameter, "schedule.runAt"},
		{object{"type": "often"}, stoa.CodeInvalidValue, "schedule.type"},
		{object{}, stoa.CodeMissingParameter, "schedule.type"},
		{object{"type": "cron", "expression": "@daily", "timezone": "UTC", "seconds": 1}, stoa.CodeUnknownField, "schedule.seconds"},
	} {
		for _, ask := range []struct {
			method, path string
			body         object
		}{
			{"POST", a.agent + "/scheduled-tasks", object{"name": "x", "message": "x", "schedule": tc.schedule}},
			{"POST", a.agent + "/scheduled-tasks/preview", object{"schedule": tc.schedule}},
			{"PATCH", path, object{"schedule": tc.schedule}},
		} {
			if e := a.WantError(tc.code, ask.method, ask.path, ask.body); deref(e.Param) != tc.param {
				t.Errorf("%s %s with %v: param is %v (%s)", ask.method, ask.path, tc.schedule, deref(e.Param), e.Message)
			}
		}
	}
	for _, body := range []object{{"mode": "twice"}, {"mode": "once", "sessionPolicy": "reuse"}, {"name": strings.Repeat("x", 201)}, {"message": strings.Repeat("x", 100_001)}, {"pauseAfterFailures": -1}} {
		full := object{"name": "x", "message": "x", "schedule": daily}
		for k, v := range body {
			full[k] = v
		}
		a.Want(400, "POST", a.agent+"/scheduled-tasks", full)
		a.Want(400, "PATCH", path, body)
	}
	a.With("Idempotency-Key", "two words").Want(400, "POST", path+"/run", nil)
	again := a.With("Idempotency-Key", "k")
	again.Want(201, "POST", a.agent+"/scheduled-tasks", object{"name": "x", "message": "x", "schedule": daily})
	again.WantError(stoa.CodeIdempotencyReused, "POST", a.agent+"/scheduled-tasks", object{"name": "y", "message": "x", "schedule": daily})
	a.WantError(stoa.CodeAgentNotFound, "POST", "/api/v1/api-agents/agt_x/scheduled-tasks", object{"name": "x", "message": "x", "schedule": daily})
	a.WantError(stoa.CodeAgentNotFound, "GET", "/api/v1/api-agents/agt_x/scheduled-tasks", nil)
	a.WantError(stoa.CodeSpaceNotFound, "GET", "/api/v1/spaces/spc_x/scheduled-tasks", nil)
}

func TestTasksAreListed(t *testing.T) {
	t.Parallel()
	a, clock := atNoon(t, apitest.Config{Schedules: func(c *scheduler.Config) { c.PerAgent = 5 }})
	var made []string
	for range 5 {
		task, _ := newTask(t, a, object{"schedule": object{"type": "interval", "everySeconds": 60}})
		made = append(made, task.ID)
	}
	a.WantError(stoa.CodeTooManyTasks, "POST", a.agent+"/scheduled-tasks", object{"name": "x", "message": "x", "schedule": daily})
	var me contract.User
	a.Want(200, "GET", "/api/v1/users/me", nil).JSON(&me)
	for _, list := range []string{a.agent + "/scheduled-tasks", "/api/v1/spaces/" + orNone(me.DefaultSpaceID) + "/scheduled-tasks"} {
		var got []string
		for cursor := ""; ; {
			var page contract.ScheduledTaskList
			a.Want(200, "GET", list+"?limit=2&order=asc&cursor="+cursor, nil).JSON(&page)
			for _, task := range page.Data {
				got = append(got, task.ID)
			}
			if cursor = orNone(page.NextCursor); !page.HasMore {
				break
			}
		}
		if diff := cmp.Diff(made, got); diff != "" {
			t.Error(diff)
		}
		a.WantError(stoa.CodeInvalidCursor, "GET", list+"?cursor=x", nil)
	}
	path := a.agent + "/scheduled-tasks/" + made[0]
	for range 3 {
		clock.add(time.Minute)
		tick(t, a)
	}
	var page contract.TaskRunList
	a.Want(200, "GET", path+"/runs?limit=2", nil).JSON(&page)
	if len(page.Data) != 2 || !page.HasMore || page.Data[0].ScheduledFor.String() != "2026-03-01T12:03:00.000Z" || orNone(page.Data[0].SkipReason) != "overlap" {
		t.Errorf("the newest runs are %+v", page)
	}
	var rest contract.TaskRunList
	a.Want(200, "GET", path+"/runs?limit=2&cursor="+orNone(page.NextCursor), nil).JSON(&rest)
	if len(rest.Data) != 1 || rest.HasMore || rest.Data[0].Status != "queued" {
		t.Errorf("the rest is %+v", rest)
	}
	a.WantError(stoa.CodeInvalidCursor, "GET", path+"/runs?cursor="+orNone(page.NextCursor)+"&order=asc", nil)

	// Other accounts cannot read it, and a deleted agent has no tasks.
	other := newAuthor(t, a.h, newCustomer(t, a.h), nil)
	foreign := other.agent + "/scheduled-tasks/" + made[0]
	other.WantError(stoa.CodeAgentNotFound, "GET", path, nil)
	other.WantError(stoa.CodeTaskNotFound, "GET", foreign, nil)
	other.WantError(stoa.CodeTaskNotFound, "POST", foreign+"/run", nil)
	other.WantError(stoa.CodeTaskNotFound, "DELETE", foreign, nil)
	a.Want(200, "GET", path, nil)
	a.Want(204, "DELETE", a.agent, nil)
	a.WantError(stoa.CodeAgentNotFound, "GET", path, nil)
	clock.add(time.Hour)
	tick(t, a)
	var list contract.ScheduledTaskList
	a.Want(200, "GET", "/api/v1/spaces/"+orNone(me.DefaultSpaceID)+"/scheduled-tasks", nil).JSON(&list)
	if len(list.Data) != 0 {
		t.Errorf("the space has the tasks %+v", list.Data)
	}
}

// TestAFullDiskIsToldToSchedulesToo fills the store and then tries every write.
func TestAFullDiskIsToldToSchedulesToo(t *testing.T) {
	t.Parallel()
	storetest.OnlySQLite(t) // it limits the pages
	a, clock := atNoon(t, apitest.Config{Schedules: func(c *scheduler.Config) { c.PerAgent = 1000 }})
	long := strings.Repeat("x", 2000)
	minutely := object{"schedule": object{"type": "interval", "everySeconds": 60}}
	var paths []string
	for i := range 640 {
		minutely["enabled"] = i >= 20 && i < 40
		_, path := newTask(t, a, minutely)
		paths = append(paths, path)
	}
	err := a.h.Store.Write(t.Context(), func(tx *store.Tx) error { // no page more than there are
		return tx.Query(t.Context(), func(*sql.Rows) error { return nil }, "PRAGMA max_page_count = 1")
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		operation string
		ask       func(i int) *apitest.Reply
	}{
		{"createScheduledTask", func(int) *apitest.Reply {
			return a.Do("POST", a.agent+"/scheduled-tasks", object{"name": "x", "message": long, "schedule": daily})
		}},
		{"updateScheduledTask", func(i int) *apitest.Reply {
			return a.Do("PATCH", paths[i%40], object{"message": strings.Repeat(long, 10)})
		}},
		{"runScheduledTask", func(i int) *apitest.Reply { return a.Do("POST", paths[i%20]+"/run", nil) }},
		{"resumeScheduledTask", func(i int) *apitest.Reply { clock.add(12 * time.Hour); return a.Do("POST", paths[i%20]+"/resume", nil) }},
		{"deleteScheduledTask", func(i int) *apitest.Reply { return a.Do("DELETE", paths[40+i], nil) }},
		{"pauseScheduledTask", func(i int) *apitest.Reply { return a.Do("POST", paths[20+i%20]+"/pause", nil) }},
	} {
		t.Run(test.operation, func(t *testing.T) {
			for i := range 600 {
				if r := test.ask(i); r.Status == 507 {
					return
				}
			}
			t.Error("the disk never became full")
		})
	}
}

func TestARunSaysWhyItFailedAndWhatItCost(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	for message, want := range map[string]string{"say: done": "completed", "fail: 400": "failed"} {
		_, path := newTask(t, a, object{"message": message, "enabled": false})
		var run contract.TaskRun
		a.Want(202, "POST", path+"/run", nil).JSON(&run)
		if run.Error.IsSpecified() || run.CreditsMicro.IsSpecified() {
			t.Errorf("a single run has %v and %v", run.Error, run.CreditsMicro)
		}
		session := a.until(t, a.agent+"/sessions/"+orNone(run.SessionID), want)
		var list contract.TaskRunList
		a.Want(200, "GET", path+"/runs", nil).JSON(&list)
		got := list.Data[0]
		if got.Status != want || orNone(got.Error) != orNone(session.Error) || (orNone(got.Error).Message != "") != (want == "failed") || got.CreditsMicro.MustGet() != session.Usage.CreditsMicro || (want == "failed") == (got.CreditsMicro.MustGet() > 0) {
			t.Errorf("after %q the run is %+v, its session %+v", message, got, session)
		}
	}
}
