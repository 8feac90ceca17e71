package cli

import "testing"

func TestASchedulesWords(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"type":"cron","expression":"0 9 * * MON-FRI","timezone":"Europe/Berlin"}`: "Mon–Fri 09:00, Europe/Berlin",
		`{"type":"cron","expression":"5 18 * * 6,0","timezone":"UTC"}`:              "Sat, Sun 18:05, UTC",
		`{"type":"cron","expression":"30 2 * * *","timezone":"UTC"}`:                "every day 02:30, UTC",
		`{"type":"cron","expression":"0 7 1 * *","timezone":"UTC"}`:                 "day 1 of the month 07:00, UTC",
		`{"type":"cron","expression":"15 * * * *","timezone":"UTC"}`:                "every hour at :15, UTC",
		`{"type":"cron","expression":"@daily","timezone":"UTC"}`:                    "every day 00:00, UTC",
		`{"type":"cron","expression":"*/5 8-18 * * 1-5","timezone":"UTC"}`:          "cron */5 8-18 * * 1-5, UTC",
		`{"type":"cron","expression":"0 9 1 * 1","timezone":"UTC"}`:                 "cron 0 9 1 * 1, UTC",
		`{"type":"cron","expression":"0 9 * * 1#2","timezone":"UTC"}`:               "cron 0 9 * * 1#2, UTC",
		`{"type":"interval","everySeconds":21600}`:                                  "every 6 h",
		`{"type":"interval","everySeconds":5400}`:                                   "every 90 min",
		`{"type":"once","runAt":"2026-12-24T18:00:00.000Z"}`:                        "once, Thu 2026-12-24 18:00 UTC",
	} {
		v, err := decode([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := scheduleText(v); got != want {
			t.Errorf("%s is %q, want %q", raw, got, want)
		}
	}
	v, err := decode([]byte(`["2026-11-20T08:00:00Z","2026-11-23T08:00:00Z","2026-11-24T08:00:00Z","2026-11-25T08:00:00Z"]`))
	if err != nil {
		t.Fatal(err)
	}
	const want = "Fri 2026-11-20 09:00 CET · Mon 2026-11-23 09:00 CET · Tue 2026-11-24 09:00 CET · …"
	if got := instantsText(v, "Europe/Berlin"); got != want {
		t.Errorf("the instants are %q, want %q", got, want)
	}
}
