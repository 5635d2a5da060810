// Package certificates is what the replicas of a webhook server prove with who they are, and what
// API servers verify it with.
//
//	Own     an authority and a serving certificate of the installation's own, in a Secret which
//	        all replicas share: whoever first finds something missing, garbled, or near its end
//	        writes it anew, with optimistic locking, and the others follow
//	Files   given ones, which somebody else keeps, reloaded when they change
//
// A change refuses no call. What API servers verify with is the caBundle of the webhook
// configurations, which package registration keeps, and which reaches them after the certificates
// have changed here. So there are two sides to each change:
//
//   - CABundle has the new authority besides the old one for as long as replicas may serve a
//     certificate of the old one: until its end where it was replaced for being near that, and for
//     ten minutes where somebody took it away.
//   - A replica goes on with the certificate it has until all webhook configurations are seen to
//     trust the new one's authority, and half a minute more, for API servers to see it too. A
//     certificate that has expired is of no use, and is replaced at once.
//
// Of the Secret, ca.crt has the authorities, the signing one first, ca.key the key of that one,
// tls.crt and tls.key the serving certificate. Who deletes the Secret, or puts another authority
// into it, rotates the authority. A certificate is renewed when a third of its life is left, an
// authority too. Both begin to hold an hour before they are made, for clocks that are slow.
package certificates
