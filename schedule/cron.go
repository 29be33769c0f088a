package schedule

import (
	"fmt"
	"math"
	"strings"
)

// longestCron is the most bytes of an expression, more than one with every value of every field has.
const longestCron = 1000

// blank separates fields; a text block of YAML ends with a line break.
const blank = " \t\r\n"

// macros are the names for whole expressions.
var macros = map[string]string{
	"@yearly":       "0 0 1 1 *",
	"@annually":     "0 0 1 1 *",
	"@monthly":      "0 0 1 * *",
	"@weekly":       "0 0 * * 0",
	"@daily":        "0 0 * * *",
	"@midnight":     "0 0 * * *",
	"@hourly":       "0 * * * *",
	"@every_minute": "* * * * *",
}

// token is a part of an expression and the byte at which it begins.
type token struct {
	text string
	at   int
}

// failure is an Error of a token; its place is an offset until the whole expression is known.
type failure struct {
	offset        int
	message, hint string
}

func (t token) fail(hint, format string, args ...any) *failure {
	return &failure{offset: t.at, message: fmt.Sprintf(format, args...), hint: hint}
}

// from is the rest of a token behind the first n bytes.
func (t token) from(n int) token { return token{t.text[n:], t.at + n} }

// split cuts a token at every separator.
func (t token) split(separator string) []token {
	var parts []token
	at := t.at
	for _, text := range strings.Split(t.text, separator) {
		parts = append(parts, token{text, at})
		at += len(text) + len(separator)
	}
	return parts
}

// parseCron compiles an expression, a name for one, or @every.
func (s *Schedule) parseCron(text string) (rule, *Error) {
	if len(text) > longestCron {
		return nil, &Error{Field: "cron", Text: text, Message: fmt.Sprintf("is longer than %d characters", longestCron),
			Hint: "write lists as ranges and steps"}
	}
	name := strings.TrimLeft(text, blank)
	if strings.HasPrefix(name, "@") {
		word := strings.ToLower(words(name)[0].text)
		if word == "@every" {
			return s.parseEvery("cron", text)
		}
		expression, ok := macros[strings.TrimRight(strings.ToLower(name), blank)]
		if !ok {
			return nil, badMacro(word).at("cron", text, len(text)-len(name))
		}
		c, _ := compile(expression)
		return s.zoned(c, c.everyHour()), nil
	}
	c, f := compile(text)
	if f != nil {
		return nil, (&Error{Message: f.message, Hint: f.hint}).at("cron", text, f.offset)
	}
	return s.zoned(c, c.everyHour()), nil
}

// badMacro is the error for an expression that begins with @.
func badMacro(word string) *Error {
	if _, ok := macros[word]; ok {
		return &Error{Message: word + " has something behind it", Hint: "leave out what follows; " + word + " is a whole expression"}
	}
	if word == "@reboot" {
		return &Error{Message: "@reboot is not supported: a schedule belongs to no machine that could start",
			Hint: "start the pipeline from what starts the machine, or use @every"}
	}
	names := []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "@every_minute", "@every 1h30m"}
	return &Error{Message: clip(word) + " is not known", Hint: nameHint(word, names)}
}

// compile reads the five or six fields.
func compile(text string) (*calendar, *failure) {
	tokens := words(text)
	if f := checkCount(text, tokens); f != nil {
		return nil, f
	}
	c := &calendar{seconds: 1}
	if len(tokens) == 6 {
		set, f := secondField.set(tokens[0])
		if f != nil {
			return nil, f
		}
		c.seconds, tokens = set, tokens[1:]
	}
	var f *failure
	if c.minutes, f = minuteField.set(tokens[0]); f != nil {
		return nil, f
	}
	if c.hours, f = hourField.set(tokens[1]); f != nil {
		return nil, f
	}
	if c.months, f = monthField.set(tokens[3]); f != nil {
		return nil, f
	}
	if f := c.days.parseDates(tokens[2]); f != nil {
		return nil, f
	}
	if f := c.days.parseWeekdays(tokens[4]); f != nil {
		return nil, f
	}
	return c, nil
}

// words splits an expression at blanks.
func words(text string) []token {
	var tokens []token
	for at := 0; at < len(text); {
		if strings.IndexByte(blank, text[at]) >= 0 {
			at++
			continue
		}
		length := strings.IndexAny(text[at:], blank)
		if length < 0 {
			length = math.MaxInt
		}
		length = min(length, len(text)-at)
		tokens = append(tokens, token{text[at : at+length], at})
		at += length
	}
	return tokens
}

func checkCount(text string, tokens []token) *failure {
	const want = "write minute, hour, day of month, month and day of week, with the second in front if wanted"
	switch n := len(tokens); {
	case n == 0:
		return token{at: len(text)}.fail(want, "has no fields")
	case strings.Contains(tokens[0].text, "TZ="):
		return tokens[0].fail("give the zone beside the expression, not in it", "%s is not a field", clip(tokens[0].text))
	case n < 5:
		return token{at: len(text)}.fail(want, "ends after %d of 5 fields", n)
	case n == 7:
		return tokens[6].fail("leave it out; not_before and not_after limit the years", "has a field for the year")
	case n > 7:
		return tokens[6].fail(want, "has %d fields, more than 6", n)
	}
	return nil
}
