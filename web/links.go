package web

import (
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"path"
	"slices"
	"strings"
)

// screen is a row of routes.json, which the build makes of the table of screens: what a page of such an address needs beside the first
// files of every page, and what it asks the API first. Words of its path, and of what it asks, that begin with a colon are any words of
// the address; with a question mark behind it, the last one may be missing.
type screen struct {
	Path  string   `json:"path"`
	Files []string `json:"files"`
	Asks  []string `json:"asks"`
}

// screensOf reads routes.json, compressed.
func screensOf(packed []byte) (list []screen, err error) {
	text, err := unpack(packed)
	if err != nil {
		return nil, err
	}
	return list, json.Unmarshal([]byte(text), &list)
}

// linksFor are the links to the files that the page of an address needs, and what it asks the API first: nothing where it is no
// screen's. Where the address has a query, it is not known what will be asked.
func linksFor(list []screen, address string, query bool) (links string, asks []string) {
	have := words(address)
	for i := range list {
		values, ok := list[i].match(have)
		if !ok {
			continue
		}
		var b strings.Builder
		for _, name := range list[i].Files {
			rel := "modulepreload"
			if path.Ext(name) == ".css" {
				rel = "stylesheet"
			}
			fmt.Fprintf(&b, "<link rel=%q crossorigin href=\"./%s\">\n", rel, html.EscapeString(name))
		}
		for _, ask := range list[i].Asks {
			if named := strings.Contains(ask, ":"); !named || !query {
				asks = append(asks, values.Replace(ask))
			}
		}
		return b.String(), asks
	}
	return "", nil
}

// match gives what stands for the words of the path that begin with a colon; false if the address is not one of the screen's.
func (s *screen) match(have []string) (values *strings.Replacer, ok bool) {
	want := words(s.Path)
	var pairs []string
	for i, word := range want {
		name, named := strings.CutPrefix(word, ":")
		switch optional := strings.HasSuffix(name, "?"); {
		case i >= len(have) && optional:
		case i >= len(have) || !named && word != have[i]:
			return nil, false
		case named && !optional:
			pairs = append(pairs, ":"+name, url.PathEscape(have[i]))
		}
	}
	return strings.NewReplacer(pairs...), len(have) <= len(want)
}

func words(p string) []string {
	return slices.DeleteFunc(strings.Split(p, "/"), func(w string) bool { return w == "" })
}
