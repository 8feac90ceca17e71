package session

import (
	"fmt"
	"strings"
	"time"

	"stoa/internal/base/stoa"
)

// CheckTimezone returns [stoa.CodeInvalidTimezone] at "timezone" unless name is a time zone
// of the IANA database.
func CheckTimezone(name string) error {
	if _, err := stoa.LoadZone(name); err != nil {
		return stoa.AsError(err).At("timezone")
	}
	return nil
}

const noteTime = "Monday, 2 January 2006, 15:04"

// load returns the time zone of a session. A zone that this version of the IANA database
// lacks is UTC.
func load(timezone string) *time.Location {
	if zone, err := stoa.LoadZone(timezone); err == nil {
		return zone
	}
	return time.UTC
}

// note returns the text that a model receives with a message: the time and, for a run of a task, its
// scheduled instant. It is stored with the message, so that every later call repeats it unchanged.
func note(now time.Time, timezone string, scheduledFor time.Time) string {
	zone := load(timezone)
	text := fmt.Sprintf("%s%s in %s (%s).", stoa.NoteStart, now.In(zone).Format(noteTime), zone, now.In(zone).Format("UTC-07:00"))
	if !scheduledFor.IsZero() {
		text += fmt.Sprintf(" This run was scheduled for %s.", scheduledFor.In(zone).Format(noteTime))
	}
	return text + "]"
}

func fill(message, timezone string, scheduledFor time.Time) string {
	if scheduledFor.IsZero() {
		return message
	}
	at := scheduledFor.In(load(timezone))
	return strings.NewReplacer("{{scheduledFor}}", at.Format(time.RFC3339), "{{date}}", at.Format(time.DateOnly), "{{time}}", at.Format("15:04")).Replace(message)
}
