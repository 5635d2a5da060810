package review

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/google/shlex"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// takeAfter sets the flags that a kube-apiserver's command line sets, in the file that --like
// names, unless they are given. Flags that have nothing to do with a verdict are passed over.
func takeAfter(flags *pflag.FlagSet, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--like: %w", err)
	}
	args, err := commandLine(data)
	if err != nil {
		return fmt.Errorf("--like %s: %w", file, err)
	}
	for i := 0; i < len(args); i++ {
		name, value, given := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if !strings.HasPrefix(args[i], "--") {
			continue
		}
		flag := flags.Lookup(strings.ReplaceAll(name, "_", "-"))
		if flag == nil || flag.Changed || !decides(flag.Name) {
			continue
		}
		if !given {
			value = flag.NoOptDefVal
			if value == "" && i+1 < len(args) {
				i++
				value = args[i]
			}
		}
		if err := flag.Value.Set(value); err != nil {
			return fmt.Errorf("--like %s: --%s=%s: %w", file, name, value, err)
		}
		if err := missing(flag); err != nil {
			return fmt.Errorf("--like %s: --%s=%s: %w: say with --%s where it is on this machine", file, name, value,
				err, flag.Name)
		}
	}
	return nil
}

// missing is the error where a flag names a file that isn't there, since it is on the machine that
// the kube-apiserver runs on.
func missing(flag *pflag.Flag) error {
	if !strings.HasSuffix(flag.Name, "-file") {
		return nil
	}
	_, err := os.Stat(flag.Value.String())
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		return of.Err
	}
	return err
}

// decides tells whether a flag of kube-apiserver's has to do with a verdict.
func decides(name string) bool {
	return strings.Contains(name, "admission") || slices.Contains(chainFlags, name)
}

// commandLine is that of a kube-apiserver, from the manifest of its pod or as it is typed.
func commandLine(data []byte) ([]string, error) {
	var pod corev1.Pod
	if err := yaml.Unmarshal(data, &pod); err == nil && pod.Kind == "Pod" {
		for _, c := range pod.Spec.Containers {
			for i, word := range slices.Concat(c.Command, c.Args) {
				switch {
				case !strings.Contains(word, "kube-apiserver"):
				case strings.ContainsAny(word, " \n"): // a shell runs it
					return words(word)
				default:
					return slices.Concat(c.Command, c.Args)[i:], nil
				}
			}
		}
		return nil, fmt.Errorf("pod %s has no container that runs kube-apiserver", pod.Name)
	}
	line, err := words(string(data))
	if err != nil {
		return nil, err
	}
	if len(line) == 0 || !slices.ContainsFunc(line, func(word string) bool { return strings.HasPrefix(word, "--") }) {
		return nil, fmt.Errorf("neither the manifest of a kube-apiserver's pod nor its command line")
	}
	return line, nil
}

// words are those of a command line, as a shell or a unit of systemd has them, or /proc of a
// process, where nothing is quoted.
func words(text string) ([]string, error) {
	if strings.Contains(text, "\x00") {
		return strings.Split(strings.TrimRight(text, "\x00"), "\x00"), nil
	}
	return shlex.Split(strings.ReplaceAll(text, "\\\n", " "))
}
