export default function Home() {
  return (
    <div className="screen">
      <header><h1>Home</h1></header>
    </div>
  )
}
