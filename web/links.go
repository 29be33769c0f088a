package web

import (
	"encoding/json"
	"fmt"
	"html"
	"path"
	"slices"
	"strings"
)

// screen is a row of routes.json, which the build makes of the table of screens: what a page of such an address needs beside the first
// files of every page, and what it asks the API first.
type screen struct {
	Path  string   `json:"path"`
	Files []string `json:"files"`
	Asks  []string `json:"asks"`
	links string
}

// screensOf reads routes.json, compressed, and makes the links of each screen.
func screensOf(packed []byte) ([]screen, error) {
	text, err := unpack(packed)
	if err != nil {
		return nil, err
	}
	var list []screen
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, err
	}
	for i := range list {
		var b strings.Builder
		for _, name := range list[i].Files {
			rel := "modulepreload"
			if path.Ext(name) == ".css" {
				rel = "stylesheet"
			}
			fmt.Fprintf(&b, "<link rel=%q crossorigin href=\"./%s\">\n", rel, html.EscapeString(name))
		}
		for _, ask := range list[i].Asks {
			fmt.Fprintf(&b, "<link rel=\"preload\" as=\"fetch\" crossorigin href=\"./api/v1/%s\">\n", html.EscapeString(ask))
		}
		list[i].links = b.String()
	}
	return list, nil
}

// fits says whether the path of an address is one of the screen's. A word of the screen's path that begins with a colon is any word;
// with a question mark behind it, it may be missing.
func (s *screen) fits(address string) bool {
	have := words(address)
	for i, word := range words(s.Path) {
		optional := strings.HasSuffix(word, "?")
		switch {
		case i >= len(have):
			return optional
		case !strings.HasPrefix(word, ":") && word != have[i]:
			return false
		}
	}
	return len(have) <= len(words(s.Path))
}

func words(p string) []string {
	return slices.DeleteFunc(strings.Split(p, "/"), func(w string) bool { return w == "" })
}

// linksFor are the links of the first screen that an address fits, "" for those of none.
func linksFor(list []screen, address string) string {
	for i := range list {
		if list[i].fits(address) {
			return list[i].links
		}
	}
	return ""
}
