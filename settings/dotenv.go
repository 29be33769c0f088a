package settings

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
)

// maxDotenv bounds a dotenv file.
const maxDotenv = 1 << 20

// Dotenv reads a file of NAME=value lines (stac-manager, input_secrets.dotenv_path): comments, `export`,
// quotes, and nothing more. A relative path is meant from the working directory, else from dir.
// read reads the beginning of a file.
func Dotenv(path, dir string, read func(name string, limit int64) ([]byte, error)) (map[string]string, error) {
	if !app.IsFile(path) && !filepath.IsAbs(path) && app.IsFile(filepath.Join(dir, path)) {
		path = filepath.Join(dir, path)
	}
	raw, err := read(path, maxDotenv+1)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxDotenv {
		return nil, stepwell.Invalid("it should hold a few variables", "%s is larger than %d bytes", path, maxDotenv)
	}
	values := map[string]string{}
	for i, line := range strings.Split(strings.TrimPrefix(string(raw), "\ufeff"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" || strings.ContainsAny(name, " \t\"'") {
			return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("%s, line %d is no NAME=value", path, i+1)}
		}
		if values[name], err = dotenvValue(strings.TrimSpace(value)); err != nil {
			return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("%s, line %d: %v", path, i+1, err)}
		}
	}
	return values, nil
}

func dotenvValue(text string) (string, error) {
	if text == "" || text[0] != '"' && text[0] != '\'' {
		if i := strings.Index(text, " #"); i >= 0 {
			text = strings.TrimSpace(text[:i])
		}
		return text, nil
	}
	end := strings.IndexByte(text[1:], text[0])
	if end < 0 {
		return "", fmt.Errorf("the quote is not closed")
	}
	inner, rest := text[1:1+end], strings.TrimSpace(text[2+end:])
	if rest != "" && rest[0] != '#' {
		return "", fmt.Errorf("text follows the closing quote")
	}
	if text[0] == '"' {
		inner = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\\`, `\`).Replace(inner)
	}
	return inner, nil
}
