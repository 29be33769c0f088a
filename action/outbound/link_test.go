package outbound_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/action/outbound"
)

func TestNextLink(t *testing.T) {
	for value, want := range map[string]string{
		`<https://h/a>; rel="next"`:                                  "https://h/a",
		`<https://h/a,b>; rel="prev", <https://h/c?x=1,2>; rel=next`: "https://h/c?x=1,2",
		`<https://h/a>;rel="self",<https://h/b>;type="x";rel="next"`: "https://h/b",
		`<https://h/a>; rel="last"`:                                  "", "": "", `rel="next"`: "",
	} {
		if got, err := outbound.NextLink(http.Header{"Link": {value}}); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", value, got, err, want)
		}
	}
}

func FuzzNextLink(f *testing.F) {
	f.Add(`<a>; rel="next"`)
	f.Add(`<a>; rel=prev, <b>;rel="x NEXT"; title="a, <c>; rel=next"`)
	f.Add(`<a>; title="\"; rel=next`)
	f.Fuzz(func(t *testing.T, header string) {
		href, err := outbound.NextLink(http.Header{"Link": {header}})
		if err == nil && href != "" && !strings.Contains(header, href) {
			t.Errorf("%q from %q", href, header)
		}
	})
}
