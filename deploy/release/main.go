// Command release makes the parts of a release that goreleaser does not make. deploy/release/build calls it:
//
//	release sbom VERSION PROGRAM FILE # the bill of materials of a program, CycloneDX
//	release finish DIST               # DIST/release: everything to be published, with npm packages, formula and provenance
//	release notes VERSION             # the section of CHANGELOG.md on the input
//	release dependencies GRAPH PROGRAM # what each module costs; deploy/release/coldstart calls it
//
// The same commit gives the same bytes, except for the provenance, which names the run that has built it.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
)

// repository is where the releases are.
const repository = "https://github.com/stepwell/stepwell"

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 4 && args[0] == "sbom":
		return writeSBOM(args[1], args[2], args[3])
	case len(args) == 2 && args[0] == "finish":
		return finish(args[1])
	case len(args) == 3 && args[0] == "dependencies":
		return dependencies(args[1], args[2], os.Stdout)
	case len(args) == 2 && args[0] == "notes":
		text, err := io.ReadAll(os.Stdin)
		if err != nil {
			return err
		}
		section, err := notes(string(text), args[1])
		if err != nil {
			return err
		}
		_, err = fmt.Print(section)
		return err
	}
	return errors.New("usage: release sbom VERSION PROGRAM FILE | finish DIST | notes VERSION <CHANGELOG.md | dependencies GRAPH PROGRAM")
}

// notes returns what the changelog says of a version, without its heading.
func notes(changelog, version string) (string, error) {
	var section strings.Builder
	inside := false
	for line := range strings.Lines(changelog) {
		if strings.HasPrefix(line, "## ") {
			inside = strings.HasPrefix(line, "## ["+strings.TrimPrefix(version, "v")+"]")
			continue
		}
		if inside {
			section.WriteString(line)
		}
	}
	text := strings.TrimSpace(section.String())
	if text == "" {
		return "", fmt.Errorf("CHANGELOG.md has no section for %s: give it a section ## [%s] - DATE", version, strings.TrimPrefix(version, "v"))
	}
	return text + "\n", nil
}
