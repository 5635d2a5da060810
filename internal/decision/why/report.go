package why

import (
	"strings"
	"time"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// An Entry is what happened to an object once, or several times alike.
type Entry struct {
	*Explanation
	// Times is how often it happened in a row, and First when first.
	Times int
	First time.Time
}

// Entries explain decisions about an object, the newest first: the newest limit of them, and in any
// case the newest refusal and the creation; 0 for all. What happened several times in a row counts
// once. omitted is how many decisions there are besides.
func Entries(decisions []v1alpha1.Decision, limit int, remedies map[string]string) (entries []Entry, omitted int) {
	var all []Entry
	for i := range decisions {
		d := &decisions[i]
		if n := len(all); n > 0 && alike(all[n-1].Decision) == alike(d) {
			all[n-1].Times++
			all[n-1].First = d.Time.Time
			continue
		}
		all = append(all, Entry{Explain(d, remedies), 1, d.Time.Time})
	}
	refused, created := false, false
	for i, e := range all {
		refusal := e.Decision.Verdict != v1alpha1.Admitted && !v1alpha1.Everyday(e.Decision)
		if limit == 0 || i < limit || refusal && !refused || isCreation(e.Decision) && !created {
			entries = append(entries, e)
			refused, created = refused || refusal, created || isCreation(e.Decision)
			continue
		}
		omitted += e.Times
	}
	return entries, omitted
}

// isCreation tells whether an object was made.
func isCreation(d *v1alpha1.Decision) bool {
	r := &d.Request
	return d.Verdict == v1alpha1.Admitted && r.Operation == "CREATE" && r.Subresource == "" && !r.DryRun
}

// alike is the same for decisions of which it is enough to tell one: the same was asked for by the
// same user, and came to the same.
func alike(d *v1alpha1.Decision) string {
	r := &d.Request
	words := []string{r.Operation, r.Resource, r.Subresource, r.User.Username, r.UserAgent, string(d.Verdict),
		string(d.Reason), d.By, strings.Join(d.ChangedBy, ",")}
	if r.DryRun {
		words = append(words, "dry run")
	}
	for i := range d.Steps {
		for j := range d.Steps[i].Calls {
			c := &d.Steps[i].Calls[j]
			words = append(words, c.Kind, c.Configuration, c.Name, c.Binding, string(c.Verdict))
		}
	}
	if r.GenerateName == "" {
		words = append(words, d.Message) // which has the name that was made
	}
	return strings.Join(words, "\x00")
}

// Attempts are requests that an object's controllers made for it, and that came to the same.
type Attempts struct {
	Entry
	// Owner is what they were made for.
	Owner v1alpha1.Owner
}

// Dependents are what became of the requests that an object's controllers made for it, the newest
// first: the refused ones by what they came to, and how many were admitted, by resource.
func Dependents(decisions []v1alpha1.Decision, remedies map[string]string) (refused []Attempts, made map[string]int) {
	made = map[string]int{}
	at := map[string]int{}
	for i := range decisions {
		d := &decisions[i]
		if d.Request.Operation != "CREATE" || d.Request.Subresource != "" || d.Request.DryRun {
			continue
		}
		if d.Verdict == v1alpha1.Admitted {
			made[d.Request.Resource]++
			continue
		}
		if v1alpha1.Everyday(d) {
			continue
		}
		key := alike(d) + "\x00" + d.Request.Owner.Name
		if j, ok := at[key]; ok {
			refused[j].Times++
			refused[j].First = d.Time.Time
			continue
		}
		at[key] = len(refused)
		refused = append(refused, Attempts{Entry{Explain(d, remedies), 1, d.Time.Time}, *d.Request.Owner})
	}
	return refused, made
}
