package lint

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/stepwell/stepwell/definition"
)

// The part of SARIF 2.1.0 that problems need.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Columns string        `json:"columnKind"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"semanticVersion,omitempty"`
		URL     string      `json:"informationUri"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID      string       `json:"id"`
		Name    string       `json:"name"`
		Short   sarifText    `json:"shortDescription"`
		URL     string       `json:"helpUri"`
		Default sarifDefault `json:"defaultConfiguration"`
	}
	sarifDefault struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		Rule      string          `json:"ruleId"`
		Index     int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		Line   int `json:"startLine"`
		Column int `json:"startColumn,omitempty"`
	}
)

// site has the documentation of the rules.
const site = "https://github.com/stepwell/stepwell/blob/main/docs/lint.md"

// WriteSARIF writes problems as SARIF 2.1.0, which code scanning of GitHub and others read. Version is that of Stepwell.
func WriteSARIF(w io.Writer, version string, problems definition.Problems) error {
	driver := sarifDriver{Name: "stepwell", Version: strings.TrimPrefix(version, "v"), URL: site}
	index := map[string]int{}
	for i, r := range Rules {
		index[r.Code] = i
		driver.Rules = append(driver.Rules, sarifRule{r.Code, r.Name, sarifText{r.Short}, site + "#" + strings.ToLower(r.Code), sarifDefault{level(!r.Error)}})
	}
	results := make([]sarifResult, 0, len(problems))
	for _, p := range problems {
		message := p.Message
		if p.Hint != "" {
			message += " (" + p.Hint + ")"
		}
		at := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{uri(p.File)}}}
		if p.Line > 0 {
			at.Physical.Region = &sarifRegion{p.Line, p.Column}
		}
		if p.Path != "" {
			at.Logical = []sarifLogical{{p.Path}}
		}
		results = append(results, sarifResult{p.Code, index[p.Code], level(p.Warning), sarifText{message}, []sarifLocation{at}})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{{sarifTool{driver}, "unicodeCodePoints", results}}})
}

func level(warning bool) string {
	if warning {
		return "warning"
	}
	return "error"
}

// uri is a file's name as a relative reference (RFC 3986). A \ is that of a Windows path.
func uri(file string) string {
	const plain = "-._~/"
	var b strings.Builder
	for _, c := range []byte(strings.ReplaceAll(file, `\`, "/")) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(plain, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// The characters that have a meaning in workflow commands of GitHub Actions.
var (
	annotated = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// WriteGitHub writes problems as workflow commands: GitHub Actions shows them beside the lines of a change.
func WriteGitHub(w io.Writer, problems definition.Problems) error {
	for _, p := range problems {
		message := p.Message
		if p.Hint != "" {
			message += "\n" + p.Hint
		}
		place := ""
		if p.Line > 0 {
			place = fmt.Sprintf(",line=%d,col=%d", p.Line, p.Column)
		}
		if _, err := fmt.Fprintf(w, "::%s file=%s%s,title=%s::%s\n", level(p.Warning), property.Replace(p.File), place, property.Replace(p.Code), annotated.Replace(message)); err != nil {
			return err
		}
	}
	return nil
}
