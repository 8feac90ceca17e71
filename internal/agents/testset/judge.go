package testset

import (
	"fmt"
	"strings"

	"golang.org/x/text/unicode/norm"

	"stoa/internal/agents/session"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/models/schema"
)

const (
	maxReasons   = 10
	maxReason    = 200 // characters
	replyStored  = 500 // characters
	reasonSchema = "the reply does not fit the schema: "
)

// judge returns the first reasons why a reply is not as a question expects; none if it is.
func judge(q stoa.TestQuestion, reply string) (reasons []string) {
	text := comparable(reply)
	for _, fact := range q.Facts {
		if !strings.Contains(text, comparable(fact)) {
			reasons = append(reasons, reason("misses: "+fact))
		}
	}
	for _, absent := range q.Absent {
		if strings.Contains(text, comparable(absent)) {
			reasons = append(reasons, reason("contains: "+absent))
		}
	}
	if q.ReplySchema != "" {
		if err := fits(q.ReplySchema, reply); err != nil {
			reasons = append(reasons, reason(reasonSchema+err.Error()))
		}
	}
	return reasons[:min(len(reasons), maxReasons)]
}

// comparable returns a text without differences of case, spaces and forms of letters.
func comparable(text string) string {
	return strings.Join(strings.Fields(norm.NFKC.String(strings.ToLower(norm.NFKC.String(text)))), " ")
}

func fits(want, reply string) error {
	value := jsonx.ObjectIn(reply)
	if value == nil {
		return fmt.Errorf("it is not a JSON object")
	}
	p, err := schema.ReadParameters(want)
	if err == nil {
		err = p.Check(string(value))
	}
	return err
}

func reason(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if cut := session.CutRunes(text, maxReason); cut != text {
		return cut + "…"
	}
	return text
}
