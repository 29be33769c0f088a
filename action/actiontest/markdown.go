package actiontest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stepwell/stepwell/spec"
)

// Markdown writes the reference page of actions or stream modules (kind: "action", "module"), in the given
// order: everything a Spec says, as headings, tables and YAML examples. The same specs give the same bytes.
func Markdown(w io.Writer, kind string, specs ...spec.Spec) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# %s%ss\n\nThis page is generated from the descriptions of the %ss.\n\n<!-- blocks: validate -->\n\n", strings.ToUpper(kind[:1]), kind[1:], kind)
	fmt.Fprintf(b, "| %s | effect |\n|---|---|\n", kind)
	for i := range specs {
		fmt.Fprintf(b, "| [`%s`](#%s) | %s |\n", specs[i].Name, anchor(specs[i].Name), cell(specs[i].Summary))
	}
	for i := range specs {
		writeAction(b, &specs[i])
	}
	return b.Flush()
}

func writeAction(b *bufio.Writer, s *spec.Spec) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", s.Name, fill(s.Summary))
	if s.Doc != "" {
		fmt.Fprintf(b, "\n%s\n", fill(s.Doc))
	}
	if facts := factsOf(s); len(facts) > 0 {
		b.WriteString("\n")
		for _, fact := range facts {
			fmt.Fprintf(b, "%s\n", fill("- "+fact))
		}
	}
	switch {
	case len(s.Params) > 0:
		fmt.Fprintf(b, "\n### %s\n\n", fieldsOf(s))
		b.WriteString("| name | type | default | meaning |\n|---|---|---|---|\n")
		writeFields(b, "", s.Params)
	case !s.OpenParams:
		fmt.Fprintf(b, "\n### %s\n\nNone.\n", fieldsOf(s))
	}
	if len(s.Outputs) > 0 {
		b.WriteString("\n### Outputs\n\n| name | type | meaning |\n|---|---|---|\n")
		for i := range s.Outputs {
			f := &s.Outputs[i]
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.Name, typeOf(f), cell(meaning(f)))
		}
	}
	for _, e := range s.Examples {
		fmt.Fprintf(b, "\n### Example: %s\n\n```yaml\n%s\n```\n", e.Title, strings.Trim(e.YAML, "\n"))
	}
}

// fieldsOf is the documentation's name of a step's values.
func fieldsOf(s *spec.Spec) string {
	if s.Stream != nil {
		return "Config"
	}
	return "Parameters"
}

// factsOf are the properties that only some actions have, one sentence each.
func factsOf(s *spec.Spec) []string {
	var facts []string
	if len(s.Aliases) > 0 {
		facts = append(facts, "Other names: "+codes(s.Aliases)+".")
	}
	if s.OpenParams {
		facts = append(facts, "Accepts parameters of any name.")
	}
	if len(s.DependsOn) > 0 {
		facts = append(facts, "Depends on "+codes(s.DependsOn)+" when the step names no dependencies.")
	}
	if len(s.Spawns) > 0 {
		facts = append(facts, "May spawn the steps "+codes(s.Spawns)+".")
	}
	if s.KeyParam != "" {
		facts = append(facts, fmt.Sprintf("A spawned step's key is its name, a colon and the value of `%s`.", s.KeyParam))
	}
	if s.Timeout > 0 {
		facts = append(facts, "Time limit of one attempt: "+shortDuration(s.Timeout)+".")
	}
	if r := s.Retry; r != nil {
		facts = append(facts, fmt.Sprintf("Up to %d attempts, the first two %s apart, unless the step or the pipeline sets `retry`.",
			r.MaxAttempts, shortDuration(r.Backoff)))
	}
	if s.Reserved {
		facts = append(facts, "Reserved for admins. The policy may allow it to other roles by name: `roles: {editor: {allow: [\"*\", "+s.Name+"]}}`.")
	}
	if s.NotIdempotent {
		facts = append(facts, "Not idempotent: it is not retried after its worker was lost.")
	}
	return facts
}

// writeFields writes one row per field, members of objects and lists below their owner with its path.
func writeFields(b *bufio.Writer, prefix string, fields []spec.Field) {
	for i := range fields {
		f := &fields[i]
		fallback := ""
		switch {
		case f.Required:
			fallback = "**required**"
		case f.Default != nil && !f.Secret:
			fallback = "`" + jsonText(f.Default) + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", prefix+f.Name, typeOf(f), cell(fallback), cell(meaning(f)))
		writeFields(b, prefix+f.Name+".", f.Fields)
		if f.Items != nil {
			writeFields(b, prefix+f.Name+"[].", f.Items.Fields)
		}
	}
}

func typeOf(f *spec.Field) string {
	if f.Type == spec.Array && f.Items != nil {
		return "array of " + typeOf(f.Items)
	}
	return string(f.Type)
}

// meaning is the field's sentence with its bounds behind it.
func meaning(f *spec.Field) string {
	parts := []string{f.Doc}
	if len(f.Enum) > 0 {
		parts = append(parts, "One of "+codes(f.Enum)+".")
	}
	if bounds := boundsOf(f); bounds != "" {
		parts = append(parts, bounds)
	}
	if f.Pattern != "" {
		parts = append(parts, "Matches `"+f.Pattern+"`.")
	}
	if f.Raw {
		parts = append(parts, "The action itself renders its templates.")
	}
	if f.Secret {
		parts = append(parts, "Never shown.")
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

func boundsOf(f *spec.Field) string {
	what := map[spec.Type]string{spec.String: "Length ", spec.Array: "Elements: "}[f.Type]
	switch {
	case f.Min != nil && f.Max != nil:
		return fmt.Sprintf("%s%v to %v.", what, jsonText(*f.Min), jsonText(*f.Max))
	case f.Min != nil:
		return fmt.Sprintf("%sat least %v.", what, jsonText(*f.Min))
	case f.Max != nil:
		return fmt.Sprintf("%sat most %v.", what, jsonText(*f.Max))
	}
	return ""
}

func codes(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }

// anchor is the fragment that renderers give the heading of an action.
func anchor(name string) string { return strings.ToLower(strings.ReplaceAll(name, ".", "")) }

// cell makes text safe within a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\r", "", "\n", " ").Replace(text)
}

func jsonText(value any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return fmt.Sprint(value)
	}
	return strings.TrimSpace(b.String())
}

// shortDuration is 1h30m0s without trailing zeros.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
