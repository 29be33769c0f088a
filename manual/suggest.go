package manual

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/spec"
)

// mostSuggested bounds how many commands are suggested at once.
const mostSuggested = 3

// Suggest returns the paths of the commands at and below cmd that a word may have meant, none when no name is near. The
// commands of cmd itself come first where two are as near.
func Suggest(cmd *cobra.Command, word string) []string {
	named := map[string][]string{} // paths by name
	var names []string             // from the top down
	var walk func(level []*cobra.Command)
	walk = func(level []*cobra.Command) {
		var below []*cobra.Command
		for _, c := range level {
			if !c.IsAvailableCommand() {
				continue
			}
			for _, name := range slices.Concat([]string{c.Name()}, c.Aliases, c.SuggestFor) {
				names = append(names, name)
				named[name] = append(named[name], c.CommandPath())
			}
			below = append(below, c.Commands()...)
		}
		if len(below) > 0 {
			walk(below)
		}
	}
	walk(cmd.Commands())
	paths := slices.Compact(named[spec.Closest(word, names)])
	return paths[:min(mostSuggested, len(paths))]
}
